"""The journal: one writer, whole lines, and nothing else taken for an event."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from kvtui.errors import RunError
from kvtui.runs import journal
from kvtui.runs.events import Event, Note
from kvtui.runs.journal import JournalReader, JournalWriter, is_written
from tests import journals
from tests.waiting import until


def note(number: int, length: int = 0) -> Note:
    """An event of that number."""
    return Note(float(number), "info", f"note {number} " + "x" * length)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the journal is."""
    return tmp_path / "journal.jsonl"


def write(path: Path, *events: Event) -> None:
    """Append events as a runner does."""
    with JournalWriter(path) as writer:
        for event in events:
            writer.append(event)


def test_events_come_back_as_they_went_in(path: Path) -> None:
    events = list(journals.events("ram", "null", "redis-tcp", hostile="\x1b[2J \u202e"))
    write(path, *events)
    assert JournalReader(path).read(10**9) == events
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_reader_follows_and_gets_each_event_once(path: Path) -> None:
    reader, found = JournalReader(path), list[Any]()
    assert reader.read() == []  # not there yet
    with JournalWriter(path) as writer:
        for number in range(10):
            writer.append(note(number))
            found += reader.read()
            assert found == [note(n) for n in range(number + 1)]
    assert reader.read() == []


@pytest.mark.parametrize("limit", [1, 7, 100, 5000])
def test_an_empty_answer_means_that_there_is_nothing_new(
    path: Path, limit: int
) -> None:
    """Whatever the limit, and however long a line."""
    write(path, note(0), note(1, 3000), note(2))
    reader, found = JournalReader(path), list[Any]()
    while events := reader.read(limit):
        found += events
    assert found == [note(0), note(1, 3000), note(2)]


def test_unreadable_lines_do_not_hide_what_follows(path: Path) -> None:
    write(path, note(0))
    with path.open("ab") as file:
        file.write(b"junk\n" * 2000)
    write(path, note(1))
    reader, found = JournalReader(path), list[Any]()
    while events := reader.read(1000):
        found += events
    assert found == [note(0), note(1)]
    assert reader.unreadable_lines == 2000


def test_a_line_that_was_cut_off_is_left_unread_until_it_is_whole(path: Path) -> None:
    write(path, note(0), note(1))
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    reader = JournalReader(path)
    assert reader.read() == [note(0)]
    assert reader.read() == []
    with path.open("ab") as file:
        file.write(whole[-5:])
    assert reader.read() == [note(1)]
    assert reader.unreadable_lines == 0


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"null",
        b"\xff\xfe",
        b"\0" * 100,
        b'{"event": "Note", "at_s": "soon", "level": "info", "text": ""}',
        b'{"event": "Note", "at_s": 1',
        b'{"event": "Unknown", "at_s": 1}',
        b"[" * 200_000,
        b'{"event": "Note", "x": ' + b"[" * 200_000,
    ],
)
def test_what_is_no_event_is_counted_and_passed_over(path: Path, line: bytes) -> None:
    write(path, note(0))
    with path.open("ab") as file:
        file.write(line + b"\n")
    write(path, note(1))
    reader = JournalReader(path)
    assert reader.read() == [note(0), note(1)]
    assert reader.unreadable_lines == 1


def test_fields_of_a_later_version_are_ignored(path: Path) -> None:
    path.write_bytes(
        b'{"event":"Note","at_s":1,"level":"info","text":"x","colour":"red"}\n'
    )
    assert JournalReader(path).read() == [Note(1.0, "info", "x")]


def test_a_second_writer_is_refused_and_does_no_harm(path: Path) -> None:
    with JournalWriter(path) as first:
        first.append(note(0))
        with pytest.raises(RunError) as caught:
            JournalWriter(path)
        assert str(path) in caught.value.message
        first.append(note(1))
    assert JournalReader(path).read() == [note(0), note(1)]


def test_whoever_looks_whether_it_is_written_keeps_no_runner_out(path: Path) -> None:
    """A glance takes the lock for a moment; a runner starting then must not fail."""
    path.touch()
    file = os.open(path, os.O_RDONLY)
    fcntl.flock(file, fcntl.LOCK_SH)
    opened: list[JournalWriter] = []
    thread = Thread(target=lambda: opened.append(JournalWriter(path)))
    thread.start()
    thread.join(0.05)
    os.close(file)
    thread.join(30)
    assert len(opened) == 1
    opened[0].close()


def test_the_lock_tells_whether_the_writer_lives(path: Path) -> None:
    assert is_written(path) is False
    with JournalWriter(path):
        assert is_written(path) is True
        assert is_written(path) is True  # asking takes nothing away
    assert is_written(path) is False


def test_the_lock_goes_with_a_killed_writer(path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from kvtui.runs.journal import JournalWriter\n"
        "from kvtui.runs.events import Note\n"
        "w = JournalWriter(Path(sys.argv[1])); w.append(Note(0.0, 'info', 'here'))\n"
        "time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)]) as process:
        try:
            until(lambda: JournalReader(path).read(), "the writer has written")
            assert is_written(path)
        finally:
            process.send_signal(signal.SIGKILL)
    assert not is_written(path)
    assert JournalReader(path).read() == [Note(0.0, "info", "here")]


def test_after_a_full_disk_the_next_event_stands_on_a_line_of_its_own(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """061: it waits for room, and so does what follows it."""
    writer, real = JournalWriter(path), os.write
    writer.append(note(0))
    room = 10

    def full(file: int, data: Any) -> int:
        nonlocal room
        if not room:
            raise OSError(28, "No space left on device")
        taken, room = min(room, len(data)), 0
        return real(file, bytes(data[:taken]))

    monkeypatch.setattr(os, "write", full)
    writer.append(note(1))
    writer.append(note(2))
    assert writer.owes()
    assert JournalReader(path).read() == [note(0)]
    monkeypatch.undo()
    writer.append(note(3))
    assert not writer.owes()
    writer.close()
    reader = JournalReader(path)
    assert reader.read() == [note(0), note(1), note(2), note(3)]
    assert reader.unreadable_lines == 0


def test_a_disk_that_stays_full_is_an_error_in_the_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not all memory is taken for what finds no room."""
    writer = JournalWriter(path)

    def full(file: int, data: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    monkeypatch.setattr(journal, "_OWED_LIMIT_BYTES", 1000)
    writer.append(note(0))
    with pytest.raises(OSError, match="No space left"):
        writer.append(note(1, 1000))
    monkeypatch.undo()
    writer.close()
    assert JournalReader(path).read() == [note(0), note(1, 1000)]


def test_a_disk_that_fails_is_an_error_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = JournalWriter(path)

    def broken(file: int, data: Any) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "write", broken)
    with pytest.raises(OSError, match="Input/output"):
        writer.append(note(0))
    monkeypatch.undo()
    writer.close()


def test_a_write_that_takes_only_a_part_is_gone_on_with(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, bytes(data[:7])))
    write(path, note(0), note(1))
    monkeypatch.undo()
    assert JournalReader(path).read() == [note(0), note(1)]
