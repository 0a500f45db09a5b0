"""What the runner makes of a worker's messages, without any worker."""

from __future__ import annotations

from kvtui.engine.messages import Kept
from kvtui.engine.trial import Trial
from kvtui.errors import SnapshotError
from kvtui.jobs.workload import Keeper
from kvtui.runs.events import Event, Note


class FullDisk(Keeper):
    """Takes one record, then the disk is full."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.discarded = False

    def keep(self, number: int, record: bytes) -> None:
        if self.taken:
            raise SnapshotError("the copy of the records cannot be written: full")
        self.taken.append(number)

    def close(self) -> None:
        raise AssertionError("half a copy was finished")

    def discard(self) -> None:
        self.discarded = True


def test_a_copy_that_does_not_fit_costs_no_verification() -> None:
    events: list[Event] = []
    trial = Trial(3, [], events.append, lambda: 1.5)
    keeper = trial.keeper = FullDisk()
    trial._keep(Kept([(0, b"a"), (1, b"b"), (2, b"c")]))
    assert keeper.taken == [0]
    assert keeper.discarded
    (note,) = events
    assert isinstance(note, Note)
    assert (note.level, note.trial) == ("warning", 3)
    assert "full" in note.text
    trial._keep(Kept([(3, b"d")]))  # The worker goes on reading back.
    assert len(events) == 1
