"""Run every comparison: ``python -m bench [NAME ...]``.

A store's file (``redis``, ``memcached``, …) may be named too; ``stores`` has them all.
"""

from __future__ import annotations

import importlib
import sys

NAMES = ("overhead", "draws", "startup", "stores", "fans")


def main() -> int:
    """Run the named comparisons, all by default; 1 when a target is missed."""
    missed = 0
    for name in sys.argv[1:] or NAMES:
        print(f"== {name}", flush=True)
        missed += importlib.import_module(f"bench.{name}").main()
        print(flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
