"""Tokyo Tyrant, by its binary protocol."""
