"""An HTTP trial in the terms of ApacheBench 2.3, beside exact ones where ab errs.

What its fields mean was read from its output and its manual (httpd 2.4, ``ab``). It
rounds times to whole milliseconds, takes its median half a step too high (the middle
of an odd number is averaged with the next one, of an even number it takes the upper),
and calls whatever came to its end a completed request, error pages included.

Times come from histograms: within 0.1 % of the single values.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from math import ceil, sqrt
from typing import Final

from kvtui.runs.latency import Latency
from kvtui.runs.state import RunState, StageTotals, TrialState
from kvtui.text import visible

PERCENTS: Final = (50, 66, 75, 80, 90, 95, 98, 99, 100)
_CONNECTING: Final = frozenset({"refused", "local ports"})
_RECEIVING: Final = frozenset({"no reply", "truncated", "disconnected", "timeout"})
_KEPT_OPEN: Final = "reconnects"
_CHANGED: Final = "bodies changed"
_NS_PER_MS: Final = 1e6


class Times:
    """Latencies as sorted values with their numbers; ``zeros`` of them took nothing."""

    def __init__(self, *latencies: Latency, zeros: int = 0) -> None:
        numbers = Counter({0: zeros} if zeros > 0 else {})
        for latency in latencies:
            numbers.update(dict(latency.buckets()))
        self._numbers = sorted(numbers.items())
        self._sums = list(accumulate(number for _, number in self._numbers))

    @property
    def count(self) -> int:
        """How many."""
        return self._sums[-1] if self._sums else 0

    def at(self, index: int) -> float:
        """The one of that index, from 0, in ms; the last one beyond the end."""
        found = bisect_right(self._sums, min(index, self.count - 1))
        return self._numbers[found][0] / _NS_PER_MS

    @property
    def mean(self) -> float:
        """In ms."""
        total = sum(value * number for value, number in self._numbers)
        return total / self.count / _NS_PER_MS

    @property
    def deviation(self) -> float:
        """Of the sample (n - 1), in ms; 0 for a single one."""
        if self.count < 2:
            return 0.0
        mean = self.mean * _NS_PER_MS
        off = sum((value - mean) ** 2 * number for value, number in self._numbers)
        return sqrt(off / (self.count - 1)) / _NS_PER_MS

    def percentile(self, percent: float) -> float:
        """The smallest that so many per cent do not exceed, in ms."""
        return self.at(max(0, ceil(self.count * percent / 100) - 1))

    @property
    def ab_median(self) -> float:
        """What ab takes for the median, in ms."""
        half = self.count // 2
        if self.count > 1 and self.count % 2:
            return (self.at(half) + self.at(half + 1)) / 2
        return self.at(half)

    def ab_percentile(self, percent: int) -> float:
        """What ab takes for a percentile, in ms: one place too high where the number
        divides."""
        return self.at(self.count * percent // 100)


def of_trial(trial: TrialState) -> dict[str, Times]:
    """Connect, Processing, Waiting and Total of every request that was answered; only
    Total where connecting and waiting were not taken apart. Empty without an answer."""
    stages = trial.stages
    times = {"Total": Times(*_totals(trial))}
    if stages is not None:
        times = {
            "Connect": Times(stages.connect, zeros=_over_standing(stages)),
            "Processing": Times(stages.processing, stages.whole),
            "Waiting": Times(stages.waiting, stages.whole),
        } | times
    return {name: each for name, each in times.items() if each.count}


def _over_standing(stages: StageTotals) -> int:
    return stages.waiting.count + stages.whole.count - stages.connect.count


def lines(state: RunState) -> Iterator[str]:
    """Every trial of HTTP servers, one report after the other."""
    shown = [each for each in state.trials if each.measured and each.keeps]
    for number, trial in enumerate(shown):
        if number:
            yield ""
        yield from _report(state, trial)


def percentages(state: RunState) -> Iterator[str]:
    """What ab writes with ``-e``: a line a per cent, in ms. Of several trials, all
    requests together."""
    times = Times(
        *(each for trial in state.trials if trial.keeps for each in _totals(trial))
    )
    yield "Percentage served,Time in ms"
    if not times.count:
        return
    for percent in range(101):
        at = 0 if percent == 0 else int(0.5 + times.count * percent / 100)
        yield f"{percent},{times.at(at):.3f}"


def _totals(trial: TrialState) -> Iterator[Latency]:
    for totals in trial.operations.values():
        yield totals.latency
    if trial.stages is not None:
        yield trial.stages.refused


def _report(state: RunState, trial: TrialState) -> Iterator[str]:
    seen, plan = trial.seen, state.plan
    details = seen.details if seen else {}
    address = seen.address if seen else ""
    host, _, port = address.rpartition(":")
    if not host:  # A path of a unix socket.
        host, port = address, "none"
    yield f"{trial.store}:"
    yield _field("Server Software", visible(seen.version if seen else "unknown"))
    yield _field("Server Hostname", visible(host))
    yield _field("Server Port", visible(port))
    if details.get("tls"):
        yield _field("SSL/TLS Protocol", visible(details["tls"]))
    yield ""
    asked = plan.workload.parameters if plan else {}
    pages = asked.get("urls") or [details.get("page", "")]
    yield _field("Document Path", visible(", ".join(map(str, pages))))
    length = details.get("page_bytes") or "unknown"
    yield _field("Document Length", f"{visible(length)} bytes")
    yield ""
    yield from _numbers(trial, kept=_keeps_alive(state, trial))
    times = of_trial(trial)
    if times:
        yield ""
        yield from _rounded(times)
        yield ""
        yield from _exact(times)
    if trial.stages is None:
        yield ""
        yield "Connecting and waiting were not taken apart: client=wire does it."


def _keeps_alive(state: RunState, trial: TrialState) -> bool:
    stores = state.plan.stores if state.plan else ()
    settings = next((each.settings for each in stores if each.name == trial.store), {})
    return bool(settings.get("keep_alive", True))


def _numbers(trial: TrialState, *, kept: bool) -> Iterator[str]:
    measured, stages = trial.measured, trial.stages
    kinds = _kinds(trial)
    refused = {kind: n for kind, n in kinds.items() if kind.startswith("status ")}
    bad = sum(n for kind, n in refused.items() if not kind.startswith("status 2"))
    connecting = sum(kinds.get(kind, 0) for kind in _CONNECTING)
    receiving = sum(kinds.get(kind, 0) for kind in _RECEIVING)
    figures = measured.figures if measured else {}
    changed = figures.get(_CHANGED, 0)
    strange = sum(kinds.values()) - sum(refused.values()) - connecting - receiving
    complete = trial.ok + trial.miss + sum(kinds.values()) - connecting
    elapsed_s = trial.elapsed_s or 0.0
    yield _field("Concurrency Level", str(trial.clients))
    yield _field("Time taken for tests", f"{elapsed_s:.3f} seconds")
    yield _field("Complete requests", str(complete))
    yield _field("  of them successful", f"{trial.ok}   (ab does not tell)")
    failed = connecting + receiving + changed + strange
    yield _field("Failed requests", str(failed))
    if failed:
        yield (
            f"   (Connect: {connecting}, Receive: {receiving}, Length: {changed},"
            f" Exceptions: {strange})"
        )
    if bad:
        yield _field("Non-2xx responses", str(bad))
    if kept:
        again = complete - receiving - strange - figures.get(_KEPT_OPEN, 0)
        yield _field("Keep-Alive requests", str(max(0, again)))
    received = stages.received_bytes if stages else 0
    if stages:
        yield _field("Total transferred", f"{received} bytes")
    if trial.written_bytes:
        yield _field("Total body sent", f"{trial.written_bytes}   (ab: with the heads)")
    bodies = trial.read_bytes + (stages.refused_bytes if stages else 0)
    yield _field("HTML transferred", f"{bodies} bytes")
    if not (complete and elapsed_s):
        return
    yield _field("Requests per second", f"{complete / elapsed_s:.2f} [#/sec] (mean)")
    if trial.ok != complete:
        yield _field(
            "  successful a second", f"{trial.ok / elapsed_s:.2f}   (ab does not tell)"
        )
    each_ms = elapsed_s * 1000 / complete
    yield _field("Time per request", f"{each_ms * trial.clients:.3f} [ms] (mean)")
    yield _field(
        "Time per request",
        f"{each_ms:.3f} [ms] (mean, across all concurrent requests)",
    )
    if stages:
        rate = received / 1024 / elapsed_s
        yield _field("Transfer rate", f"{rate:.2f} [Kbytes/sec] received")


def _kinds(trial: TrialState) -> dict[str, int]:
    kinds: dict[str, int] = {}
    for totals in trial.operations.values():
        for kind, number in totals.failed.items():
            kinds[kind] = kinds.get(kind, 0) + number
    return kinds


def _field(name: str, value: str) -> str:
    return f"{name + ':':<24}{value}"


def _rounded(times: dict[str, Times]) -> Iterator[str]:
    yield "Connection Times (ms)"
    yield "              min  mean[+/-sd] median   max"
    for name, each in times.items():
        yield (
            f"{name + ':':<11}{_whole(each.at(0)):6d} {_whole(each.mean):4d}"
            f" {each.deviation:5.1f} {_whole(each.ab_median):6d}"
            f" {_whole(each.at(each.count)):7d}"
        )
    for name, each in times.items():
        yield from _doubt(name, each)
    yield ""
    yield "Percentage of the requests served within a certain time (ms)"
    total = times["Total"]
    for percent in PERCENTS:
        longest = " (longest request)" if percent == 100 else ""
        yield f" {percent:3d}%  {_whole(total.ab_percentile(percent)):5d}{longest}"


def _whole(ms: float) -> int:
    return int(ms + 0.5)


def _doubt(name: str, times: Times) -> Iterator[str]:
    """What ab says where mean and median are far apart."""
    apart = abs(times.mean - times.ab_median)
    if apart > 2 * times.deviation:
        yield (
            f"ERROR: The median and mean for {name} are more than twice the standard"
            " deviation apart. These results are NOT reliable."
        )
    elif apart > times.deviation:
        yield (
            f"WARNING: The median and mean for {name} are not within a normal"
            " deviation. These results are probably not that reliable."
        )


def _exact(times: dict[str, Times]) -> Iterator[str]:
    yield "The same, not rounded, with true medians and percentiles (ms)"
    yield "                 min      mean   [+/-sd]    median       max"
    for name, each in times.items():
        numbers = (
            each.at(0),
            each.mean,
            each.deviation,
            each.percentile(50),
            each.at(each.count),
        )
        yield f"{name + ':':<11}" + "".join(f"{number:10.3f}" for number in numbers)
    total = times["Total"]
    yield "  " + "  ".join(
        f"{percent}% {total.percentile(percent):.3f}" for percent in PERCENTS
    )
