"""Every store beside the tool that its own people measure it with, as one table.

50 clients, values of 100 bytes, in turn in one run, each store with its own targets
(see its file here); and the calls loop beside a bare loop over the same driver.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).parent.parent)

from bench import drivers, http, memcached, mysql, redis
from bench.compare import table


def main() -> int:
    """Print the table; how many targets were missed."""
    sources = [(each.__name__.partition(".")[2], each.comparisons) for each in WIRE]
    return table([*sources, *drivers.comparisons()])


WIRE = (redis, memcached, mysql, http)
"""The files with a store's own tool."""

if __name__ == "__main__":
    sys.exit(main())
