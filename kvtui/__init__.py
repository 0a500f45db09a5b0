"""kvtui: choose, size and trust key/value stores from a terminal."""

__version__ = "0.1.0"
