"""Comparing what a store gave with what it must hold.

Three ways to be false, each counted under its own name: *lost*, a record that is
missing though it was inserted; *stale*, an older version than one that was acknowledged
before the read began; *wrong*, anything else: another record's value, a version that
nobody wrote, a checksum or a byte that is off.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvtui.errors import OperationFailed
from kvtui.jobs.ycsb.keys import Keys, Records
from kvtui.jobs.ycsb.ledger import FIRST, MAYBE, STEP, VERSION_BITS, WRITTEN, Ledger
from kvtui.jobs.ycsb.values import Values

WRONG, LOST, STALE = "wrong", "lost", "stale"
FALSE: Final = (WRONG, LOST, STALE)


class Tally:
    """What one client has found."""

    def __init__(self) -> None:
        self.compared = 0
        self.bytes = 0
        self.found = dict.fromkeys(FALSE, 0)
        self.first = ""

    def add(self, kind: str, number: int, first: str) -> None:
        """So many of a kind; ``first`` says the first of them."""
        if number:
            self.found[kind] += number
            self.first = self.first or first

    @property
    def total(self) -> int:
        """Of every kind."""
        return sum(self.found.values())


class Checker:
    """Knows keys, values and ledger."""

    def __init__(
        self, keys: Keys, values: Values, ledger: Ledger, loaded: int, operations: int
    ) -> None:
        self._keys, self._values, self._ledger = keys, values, ledger
        self._loaded, self._operations = loaded, operations
        self._sorted: NDArray[np.bytes_] | None = None

    def expect_scans(self) -> None:
        """Sort the keys of what is loaded, to know what a scan must find."""
        self._sorted = np.sort(self._keys.names(np.arange(self._loaded)))

    def check(
        self,
        records: Records,
        replies: list[Any],
        tally: Tally,
        entries: Any = None,
    ) -> None:
        """Compare replies (or an OperationFailed each) with their records.

        ``entries`` are those that the records had when each read began; without them
        it is those that they have now, which for records that nobody changes is the
        same.
        """
        before: Any
        if entries is None:
            before = self._ledger.entry_array[records]
        else:
            before = np.array(entries, np.uint64)
        try:
            values = b"".join(replies)
        except TypeError:  # Some are missing, or failed.
            values = b""
        size = self._values.size
        if len(values) != len(replies) * size or not _even(replies, size):
            records, before, values = self._sift(records, before, replies, tally)
        if len(records):
            self._compare(records, before, values, tally)

    def _sift(
        self, records: Records, before: Any, replies: list[Any], tally: Tally
    ) -> tuple[Records, Any, bytes]:
        """Only what has the size of a value; the rest is told."""
        size, good = self._values.size, []
        for at, reply in enumerate(replies):
            if isinstance(reply, OperationFailed):
                continue
            if reply is None:
                if before[at] != MAYBE:
                    tally.compared += 1
                    tally.add(LOST, 1, f"{self._name(records[at])}: it is missing")
            elif len(reply) != size:
                tally.compared += 1
                tally.bytes += len(reply)
                said = f"a value of {len(reply):,} bytes, not {size:,}"
                tally.add(WRONG, 1, f"{self._name(records[at])}: {said}")
            else:
                good.append(at)
        chosen = np.array(good, np.int64)
        return records[chosen], before[chosen], b"".join(replies[at] for at in good)

    def _compare(
        self, records: Records, before: Any, values: bytes, tally: Tally
    ) -> None:
        """Values of the right size, one after the other."""
        number, size = len(records), self._values.size
        tally.compared += number
        tally.bytes += len(values)
        found = self._values.read(values)
        versions = found["version"].copy()
        possible = self._possible(versions)
        expected = self._values.array(
            records.astype(np.uint64), np.where(possible, versions, FIRST)
        )
        same = possible
        if not possible.all() or expected.tobytes() != values:
            shape = number, size
            ours = expected.view(np.uint8).reshape(shape)
            theirs = np.frombuffer(values, np.uint8).reshape(shape)
            same = possible & (ours == theirs).all(axis=1)
            self._tell_wrong(records, found, same, tally)
        self._tell_stale(records, versions, before, same, tally)

    def _possible(self, versions: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Versions that somebody has at least begun to write."""
        first: NDArray[np.bool_] = versions == FIRST
        if first.all():
            return first
        number = versions.astype(np.int64) - WRITTEN
        there = (number >= 0) & (number < self._operations)
        begun = self._ledger.before_array[np.where(there, number, 0)] != 0
        possible: NDArray[np.bool_] = first | (there & begun)
        return possible

    def _tell_wrong(
        self, records: Records, found: Any, same: NDArray[np.bool_], tally: Tally
    ) -> None:
        wrong = np.flatnonzero(~same)
        if not len(wrong):
            return
        at = int(wrong[0])
        name = self._name(records[at])
        other = int(found["record"][at])
        if other != int(records[at]):
            said = f"the value of another record ({other:,}), or no value of kvtui's"
        elif not self._possible(found["version"][at : at + 1])[0]:
            said = f"version {int(found['version'][at]):,}, which nobody wrote"
        else:
            said = "the bytes are not those that were written"
        tally.add(WRONG, len(wrong), f"{name}: {said}")

    def _tell_stale(
        self,
        records: Records,
        versions: NDArray[np.uint64],
        before: Any,
        same: NDArray[np.bool_],
        tally: Tally,
    ) -> None:
        other = same & (versions != before & np.uint64(STEP - 1))
        if not other.any():
            return
        ledger, bits = self._ledger, np.uint64(VERSION_BITS)
        if ledger.alone:
            number = np.maximum(versions.astype(np.int64) - WRITTEN, 0)
            sure = (versions == FIRST) | (ledger.before_array[number] == FIRST)
            if ledger.doubtful:
                doubtful = np.isin(records, np.array(sorted(ledger.doubtful)))
                sure &= ~(doubtful & (versions == FIRST))
            stale = np.flatnonzero(other & sure & (versions < before))
            if len(stale):
                name = self._name(int(records[stale[0]]))
                said = f"{name}: version {int(versions[stale[0]]):,} where"
                said += f" {int(before[stale[0]]):,} was acknowledged"
                tally.add(STALE, len(stale), said)
            return
        number = np.maximum(versions.astype(np.int64) - WRITTEN, 0)
        chain = (ledger.before_array[number] >> bits) + np.uint64(1)
        chain[versions == FIRST] = 0
        for at in np.flatnonzero(other & (chain < before >> bits)).tolist():
            version, entry = int(versions[at]), int(before[at])
            if ledger.is_overtaken(version, entry):
                newer = (entry >> VERSION_BITS) - int(chain[at])
                tally.add(
                    STALE,
                    1,
                    f"{self._name(records[at])}: {newer:,} acknowledged"
                    f" {'change' if newer == 1 else 'changes'} behind",
                )

    def check_scans(
        self, records: Records, lengths: Records, replies: list[Any], tally: Tally
    ) -> None:
        """Compare what scans found: from the right key on, in order, no more than was
        asked for, nothing left out that was loaded, every value its key's own.

        What entry a record had when a scan came to it nobody knows; so a scan's values
        may be wrong, and records lost, but none is told to be stale.
        """
        done = [
            at
            for at, pairs in enumerate(replies)
            if not isinstance(pairs, OperationFailed)
        ]
        if not done:
            return
        records, lengths = records[done], lengths[done]
        start = self._keys.start
        found = [replies[at] for at in done]
        got = np.array(list(map(len, found)), np.int64)
        for at, pairs in enumerate(found):
            if pairs and not pairs[-1][0].startswith(start):
                # It went on behind our keys; what is before them shows in their order.
                found[at] = [pair for pair in pairs if pair[0].startswith(start)]
        flat = [pair for pairs in found for pair in pairs]
        names = np.array([pair[0] for pair in flat], np.bytes_)
        ours = np.array(list(map(len, found)), np.int64)
        ends = np.cumsum(ours)
        starts = self._keys.names(records)
        self._tell_order(records, starts, lengths, got, names, ours, tally)
        loaded = self._check_pairs(names, [pair[1] for pair in flat], tally)
        if self._sorted is None:
            return
        before = np.concatenate(([0], np.cumsum(loaded)))
        found_loaded = before[ends] - before[ends - ours]
        first = np.searchsorted(self._sorted, starts, "left")
        last = np.full(len(done), len(self._sorted))
        full = (got >= lengths) & (ours > 0)  # There may be more behind it.
        if full.any():
            ending = names[ends[full] - 1]
            last[full] = np.searchsorted(self._sorted, ending, "right")
        there = last - first
        missing = np.where(
            there > lengths, lengths - got, np.minimum(there, lengths) - found_loaded
        )
        left_out = np.flatnonzero(missing > 0)
        if len(left_out):
            name = self._name(int(records[left_out[0]]))
            said = f"the scan from {name}: {missing[left_out[0]]:,} records left out"
            tally.add(LOST, int(missing[left_out].sum()), said)

    def _tell_order(
        self,
        records: Records,
        starts: NDArray[np.bytes_],
        lengths: Records,
        got: Records,
        names: NDArray[np.bytes_],
        ours: Records,
        tally: Tally,
    ) -> None:
        """Scans that found too much, or not in order."""
        wrong = got > lengths
        if len(names):
            begins = np.cumsum(ours) - ours
            filled = ours > 0
            wrong[filled] |= names[begins[filled]] < starts[filled]
            disordered = np.flatnonzero(names[1:] <= names[:-1]) + 1
            of_scan = np.repeat(np.arange(len(ours)), ours)
            inside = disordered[of_scan[disordered] == of_scan[disordered - 1]]
            wrong[of_scan[inside]] = True
        scans = np.flatnonzero(wrong)
        if len(scans):
            name = self._name(int(records[scans[0]]))
            said = f"the scan from {name}: not the next keys, in order, up to its limit"
            tally.add(WRONG, len(scans), said)

    def _check_pairs(
        self, names: NDArray[np.bytes_], values: list[bytes], tally: Tally
    ) -> NDArray[np.int64]:
        """Every value must be that of the key beside it. Returns 1 for each that is of
        a loaded record, else 0."""
        size = self._values.size
        whole = np.array(list(map(len, values)), np.int64) == size
        joined = b"".join(values)
        if not whole.all():
            joined = b"".join(each for each in values if len(each) == size)
            self._tell_pairs(names[~whole], "a value of another size", tally)
        claimed = self._values.read(joined)["record"]
        known = claimed < len(self._ledger.entries)
        records = np.where(known, claimed, 0).astype(np.int64)
        right = known & (self._keys.names(records) == names[whole])
        if not right.all():
            self._tell_pairs(names[whole][~right], "another record's value", tally)
            rows = np.frombuffer(joined, f"V{size}")
            joined = rows[right].tobytes()
        if right.any():
            before = np.full(int(right.sum()), FIRST, np.uint64)
            self._compare(records[right], before, joined, tally)
        loaded = np.ones(len(names), np.int64)
        loaded[np.flatnonzero(whole)[right & (records >= self._loaded)]] = 0
        return loaded

    def _tell_pairs(self, names: NDArray[np.bytes_], said: str, tally: Tally) -> None:
        tally.compared += len(names)
        first = f"{_shown(names[0])}: a scan found {said}"
        tally.add(WRONG, len(names), first)

    def _name(self, record: int) -> str:
        return _shown(self._keys.names(np.array([record], np.int64)).tolist()[0])


def _even(replies: list[Any], size: int) -> bool:
    """Whether all are of one size; that their sum fits could be by chance."""
    return set(map(len, replies)) == {size}


def _shown(key: bytes) -> str:
    return key.rpartition(b":")[2].decode("ascii", "replace")
