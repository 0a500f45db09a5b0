"""``kvtui capacity``: from the command line to the answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvtui import config
from kvtui.commands import group
from kvtui.errors import RunError, UsageError
from tests import journals


@pytest.fixture
def runs() -> Path:
    """Where runs are kept."""
    return config.runs_directory()


def capacity(*words: str) -> int:
    """``kvtui capacity`` with these words."""
    return group.run(["capacity", *words])


def document(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The answer as JSON."""
    assert capacity(*words, "--json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


PAPER = """\
26 cores, 13 machines of 2, from the published figures of 2011

  load              100,309/s  260e9/month = 260,000,000,000 ÷ 2,592,000 s (30 days a month)
  measured           15,960/s  the paper's
  busy                4 cores  as the paper takes 34 % of 24 hardware threads
  one core            3,990/s  15,960/s ÷ 4 cores
  cores                    26  100,309/s ÷ 3,990/s = 25.1, rounded up (25 would carry 99,750/s)
  machines                 13  26 cores ÷ 2 a machine
"""  # noqa: E501


def test_the_published_arithmetic(capsys: pytest.CaptureFixture[str]) -> None:
    assert capacity("--paper") == 0
    shown = capsys.readouterr().out
    assert shown.startswith(PAPER)
    assert "The paper says 25 cores; it is 26, and 13 servers of 2 either way" in shown
    assert "Non-2xx responses: 1000002" in shown
    for caveat in ("closed loop", "utilisation", "latency", "linear scaling"):
        assert f"  {caveat}: " in shown


def test_the_readme_shows_what_is_printed() -> None:
    readme = Path(__file__).parents[1] / "README.md"
    assert PAPER in readme.read_text("utf-8")


def test_the_same_figures_typed_in(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--target", "260e9/month", "--measured", "15960/s")
    found = document(capsys, *words, "--busy-cores", "4", "--cores-per-machine", "2")
    assert (found["cores"], found["machines"]) == (26, 13)
    assert found["per_core_per_s"] == 3990
    assert round(found["needed_per_s"]) == 100_309
    assert found["run"] is None
    assert found["paper"] == []
    # As vmstat told it: 8.16 hardware threads of 24 took the load.
    found = document(capsys, *words, "--busy", "34%", "--of", "24")
    assert found["busy_cores"] == 8.16
    assert (found["cores"], found["machines"]) == (52, None)


def test_peak_and_headroom(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--target", "100/s", "--measured", "100/s", "--busy-cores", "1")
    assert document(capsys, *words)["cores"] == 1
    assert document(capsys, *words, "--peak", "3")["cores"] == 3
    found = document(capsys, *words, "--peak", "3", "--headroom", "25%")
    assert (found["cores"], found["cores_exact"]) == (4, 4.0)
    assert "exactly" in found["steps"][-1]["words"]
    told = {each["about"] for each in found["caveats"]}
    assert "no headroom" not in told


def test_the_newest_run_and_its_best_store(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journals.write(runs, "null", "redis-unix", "redis-tcp", seconds=5)
    found = document(capsys, "--target", "2M gets/s")
    assert found["store"] == "redis-unix"
    assert found["busy_cores"] == 0.45
    assert "the server's own CPU time" in found["busy"]
    assert found["steps"][1]["what"] == "all kinds"
    about = [each["about"] for each in found["caveats"]]
    assert {"closed loop", "bound by", "utilisation", "latency"} <= set(about)
    assert capacity("--target", "2M/s", "--store", "redis-tcp") == 0
    assert "no rank: this trial has none: failed" in capsys.readouterr().out
    # What was seen is beaten by what is typed in.
    typed = document(capsys, "--target", "2M/s", "--busy-cores", "2")
    assert (typed["store"], typed["busy_cores"]) == ("redis-unix", 2)


def test_a_certain_run(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = journals.write(runs, "ram", seconds=5)
    journals.write(runs, "redis-unix", seconds=5)
    found = document(capsys, "--target", "2M/s", "--run", first.name)
    assert (found["run"], found["store"]) == (first.name, "ram")
    assert "in which the store lives" in found["busy"]
    with pytest.raises(RunError, match="has no store ram") as caught:
        capacity("--target", "2M/s", "--store", "ram")
    assert "redis-unix" in (caught.value.hint or "")


def test_what_cannot_be_reckoned_with_is_refused(runs: Path) -> None:
    with pytest.raises(RunError, match="there is no run yet"):
        capacity("--target", "2M/s")
    journals.write(runs, "null", seconds=5)
    with pytest.raises(RunError, match="null: it keeps nothing"):
        capacity("--target", "2M/s")


def test_a_store_of_a_strange_name_steers_no_terminal(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journals.write(runs, "a\x1b]0;b", seconds=5)
    assert capacity("--target", "2M/s") == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        ((), "which load", "--target 100k/s"),
        (("--target", "9M/dya"), "--target 9M/dya", "did you mean 9M/day?"),
        (("--target", "0/s"), "--target 0/s", "as in"),
        (("--target", "1/s", "--peak", "0.5"), "--peak 0.5", "no peak"),
        (("--target", "1/s", "--headroom", "30"), "--headroom 30", "mean 30%?"),
        (("--target", "1/s", "--headroom", "100%"), "--headroom 100%", "30%"),
        (("--target", "1/s", "--measured", "1/s"), "how many cores", "--busy-cores"),
        (
            ("--target", "1/s", "--measured", "0/s", "--busy-cores", "1"),
            "--measured 0/s: a load must be more than nothing",
            "as in",
        ),
        (
            ("--target", "1/s", "--measured", "1/s", "--busy-cores", "0"),
            "--busy-cores 0: no core was busy",
            "as in 4",
        ),
        (("--target", "1/s", "--busy", "34%"), "go together", "--of 24"),
        (("--target", "1/s", "--of", "24"), "go together", "--of 24"),
        (
            ("--target", "1/s", "--busy", "34", "--of", "24"),
            "in per cent",
            "--busy 34% --of 24",
        ),
        (
            ("--target", "1/s", "--busy", "3%", "--busy-cores", "4"),
            "the same",
            "a share",
        ),
        (("--paper", "--store", "ram"), "its own measured", "leave"),
        (("--target", "1/s", "--cores-per-machine", "0"), "--cores-per", "as in 2"),
        (
            ("--target", "1/s", "--measured", "1/s", "--store", "ram"),
            "either typed in or a trial's",
            "leave",
        ),
    ],
)
def test_words_that_are_off(words: tuple[str, ...], said: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        capacity(*words)
    assert said in caught.value.message
    assert hint in (caught.value.hint or "")
