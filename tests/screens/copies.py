"""Copies of records, written for tests as the runner writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import orjson

from kvtui.jobs.fans.archive import ArchiveWriter


class Names:
    """What the writer asks of a data set."""

    def __init__(self, pages: list[tuple[str, str]]) -> None:
        self._pages = pages

    def page(self, number: int) -> bytes:
        return self._pages[number][0].encode()

    def name(self, number: int) -> str:
        return self._pages[number][1]


def write(
    path: Path,
    pages: list[tuple[str, str, int]],
    shared: dict[tuple[str, str], int],
    profiles: int = 100,
) -> None:
    """A copy of ``(id, name, fans)`` records that share fans as given."""
    names = Names([(page, name) for page, name, _ in pages])
    writer = ArchiveWriter(path, {"profiles": str(profiles)}, cast(Any, names))
    for number, (page, _, fans) in enumerate(pages):
        others = {b: n for (a, b), n in shared.items() if a == page}
        others |= {a: n for (a, b), n in shared.items() if b == page}
        writer.keep(number, orjson.dumps({"fans": fans, "pages": others}))
    writer.close()
