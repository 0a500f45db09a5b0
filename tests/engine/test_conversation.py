"""How the runner listens to its workers, and what else it looks at meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kvtui.engine.conversation import Conversation, Stopped
from kvtui.engine.trial import Trial, TrialFailed

DIES_AT_S = 5.0
AT_ONCE_S = 1.0


class Waiting:
    """In place of a selector: time passes only here."""

    def __init__(self, worker: Any) -> None:
        self.now_s = 0.0
        self._worker = worker

    def select(self, timeout: float) -> list[tuple[Any, int]]:
        """Nobody says anything for so long; or somebody soon, again and again."""
        self.now_s += timeout if self._worker is None else 0.01
        assert self.now_s < 100, "nobody looks at the server"
        if self._worker is None:
            return []
        return [(SimpleNamespace(data=self._worker), 1)]


def conversation(waiting: Waiting, *, stops_at_s: float = 1e9) -> Conversation:
    """About a private ttserver that dies at DIES_AT_S."""
    server: Any = SimpleNamespace(
        kind="tokyo",
        death=lambda: "ended with status 1" if waiting.now_s >= DIES_AT_S else None,
        last_lines=lambda number: "no space left",
    )
    chronicle: Any = SimpleNamespace(sample=lambda: None)
    trial = Trial(0, [], lambda event: None, lambda: waiting.now_s)
    unasked: Any = None
    made = Conversation(
        chronicle,
        trial,
        server,
        opened=unasked,
        fits=unasked,
        disturbed=unasked,
        stopping=lambda: waiting.now_s >= stops_at_s,
    )
    made._selector.close()
    stand_in: Any = waiting
    made._selector = stand_in
    return made


def talkative() -> Any:
    """A worker that has always said something."""
    receiver = SimpleNamespace(receive=list, ended=False)
    return SimpleNamespace(receiver=receiver, measured=None)


@pytest.mark.parametrize("busy", [False, True], ids=["silence", "much to hear"])
def test_a_dead_server_is_noticed_within_a_second(busy: bool) -> None:
    """062: by the clock of the wait itself, so on any machine."""
    waiting = Waiting(talkative() if busy else None)
    with pytest.raises(TrialFailed) as caught:
        conversation(waiting)._until(lambda: False)
    assert 0 <= waiting.now_s - DIES_AT_S < AT_ONCE_S
    assert "private tokyo server ended with status 1" in caught.value.message
    assert "no space left" in caught.value.message


@pytest.mark.parametrize("busy", [False, True], ids=["silence", "much to hear"])
def test_a_wish_to_stop_is_heard_within_a_second(busy: bool) -> None:
    """029: while the workers connect."""
    waiting = Waiting(talkative() if busy else None)
    with pytest.raises(Stopped):
        conversation(waiting, stops_at_s=2.0)._until(lambda: False)
    assert 0 <= waiting.now_s - 2.0 < AT_ONCE_S
