"""``python -m kvtui``: the same as the ``kvtui`` command."""

from kvtui.cli import main

if __name__ == "__main__":
    main()
