"""The figures of a run, from the clients and from the server's metrics, and the checks on them.

Pure arithmetic: no clock, no network. Percentiles are by nearest rank (Hyndman and Fan, 1996, definition 1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway_simulator import spread
from headway_tools.demo.overload.figures import OverloadFigures
from headway_tools.demo.overload.shares import out_of_order
from headway_tools.load.scrape import Counts
from headway_tools.load.served import COMPLETED, FAILED, UNANSWERED, Served

_URGENT_SERVED_RATIO = 0.96


@dataclass(frozen=True, slots=True)
class PresetSeen:
    """The preset in force at some moment, and the limit it made."""

    name: str
    revision: int
    limit: int


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """The figures of a class over the whole run."""

    class_name: str
    sent: int
    endings: Mapping[str, int]
    why: Mapping[str, int]
    ttft_p50_s: float | None
    ttft_p95_s: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of a run. ``counted`` is what the server added during it, ``last`` its final scrape.

    ``overload`` is None where the run ended before it was over.
    """

    length_s: float
    classes: Sequence[ClassFigures]
    output_tokens_per_s: float
    mean_batch: float | None
    before: PresetSeen
    after: PresetSeen
    counted: Counts
    last: Counts
    overload: OverloadFigures | None


@dataclass(frozen=True, slots=True)
class Check:
    """A check; ``detail`` says what was found instead if it failed, and what was found besides if it held."""

    promise: str
    held: bool
    detail: str = ""


def check_that(promise: str, held: bool, otherwise: str) -> Check:
    """A check whose detail is kept only where it did not hold."""
    return Check(promise, held, "" if held else otherwise)


def summarise(
    served: Sequence[Served],
    sent: Mapping[str, int],
    length_s: float,
    scrapes: tuple[Counts, Counts],
    presets: tuple[PresetSeen, PresetSeen],
    overload: OverloadFigures | None = None,
) -> Summary:
    """The figures of a run of ``length_s``; scrapes and presets are (first, last)."""
    first, last = scrapes
    counted = last.since(first)
    return Summary(
        length_s=length_s,
        classes=[
            _figures(name, count, [request for request in served if request.class_name == name])
            for name, count in sent.items()
        ],
        output_tokens_per_s=sum(request.output_tokens for request in served) / length_s,
        mean_batch=counted.mean_batch,
        before=presets[0],
        after=presets[1],
        counted=counted,
        last=last,
        overload=overload,
    )


def checks(summary: Summary, wanted_classes: Sequence[str]) -> list[Check]:
    """The checks of the figures, in the order in which they are printed."""
    figures = {class_figures.class_name: class_figures for class_figures in summary.classes}
    none_completed = [
        name for name in wanted_classes if name not in figures or not figures[name].endings.get(COMPLETED)
    ]
    open_ended = {
        class_figures.class_name: class_figures.sent - sum(class_figures.endings.values())
        for class_figures in summary.classes
    }
    failures = Counter[str]()
    for class_figures in summary.classes:
        if class_figures.endings.get(FAILED) or class_figures.endings.get(UNANSWERED):
            failures.update(class_figures.why)
    unaccounted = {name: counts.unaccounted for name, counts in summary.last.classes.items()}
    return [
        check_that("every request ended", not any(open_ended.values()), _named(open_ended)),
        check_that("no request failed", not failures, _named(failures)),
        check_that("each class had a request completed", not none_completed, f"none in: {', '.join(none_completed)}"),
        check_that(
            "the preset switch took effect",
            summary.after.revision > summary.before.revision and summary.after.name != summary.before.name,
            f"{summary.before.name} -> {summary.after.name}, "
            f"revision {summary.before.revision} -> {summary.after.revision}, "
            f"limit {summary.before.limit} -> {summary.after.limit}",
        ),
        check_that(
            "arrivals = queued + in flight + outcomes",
            bool(unaccounted) and not any(unaccounted.values()),
            _named(unaccounted) or "the server shows no classes",
        ),
        _same_count(summary),
        *_overload_checks(summary.overload),
    ]


def _overload_checks(overload: OverloadFigures | None) -> list[Check]:
    """Each overload request had one outcome, for its client and for the server; the classes were served in order."""
    classes = () if overload is None else overload.classes
    differences = [
        f"{figures.class_name}: {figures.sent} sent, {figures.ended} ended; "
        f"{figures.arrived} arrived, {sum(figures.outcomes.values())} outcomes"
        for figures in classes
        if figures.sent != figures.ended or figures.arrived != sum(figures.outcomes.values())
    ]
    turned = ["there was no overload"] if overload is None else out_of_order(overload.shares, overload.length_s)
    return [
        check_that(
            "every overload request had exactly one outcome",
            bool(classes) and not differences,
            "; ".join(differences) or "there was no overload",
        ),
        check_that("a more urgent class completes more of its requests, and in time", not turned, "; ".join(turned)),
        _urgent_served(overload),
    ]


def _urgent_served(overload: OverloadFigures | None) -> Check:
    """Nearly all of the most urgent class was served, unless it alone asked for more than the engine can do."""
    promise = "nearly all requests of the most urgent class completed"
    if overload is None or not overload.shares:
        return Check(promise, held=False, detail="there was no overload")
    urgent = overload.shares[0]
    too_much = urgent.sent / overload.length_s > overload.capacity_per_s
    return check_that(
        promise,
        too_much or urgent.ratio(urgent.served) >= _URGENT_SERVED_RATIO,
        f"{urgent.class_name} {urgent.served} of {urgent.sent}",
    )


def _figures(name: str, sent: int, served: Sequence[Served]) -> ClassFigures:
    delays = spread(request.ttft_s for request in served if request.ending == COMPLETED)
    return ClassFigures(
        class_name=name,
        sent=sent,
        endings=dict(Counter(request.ending for request in served)),
        why=dict(Counter(request.why for request in served if request.why)),
        ttft_p50_s=delays.p50_s,
        ttft_p95_s=delays.p95_s,
    )


def _same_count(summary: Summary) -> Check:
    """The server counted what the demo's clients sent and got, and as much again as others could have sent."""
    differences, others = list[str](), 0
    for figures in summary.classes:
        counts = summary.counted.classes.get(figures.class_name)
        arrived, completed = (counts.arrived, counts.outcomes.get(COMPLETED, 0)) if counts else (0, 0)
        ours = figures.endings.get(COMPLETED, 0)
        of_others, others_completed = arrived - figures.sent, completed - ours
        others += of_others
        if of_others < 0:
            differences.append(f"{figures.class_name} sent: client {figures.sent}, server {arrived}")
        if not 0 <= others_completed <= max(0, of_others):
            differences.append(f"{figures.class_name} completed: client {ours}, server {completed}")
    promise = "the server counted what the clients saw"
    if differences:
        return Check(promise, held=False, detail="; ".join(differences))
    return Check(promise, held=True, detail=f"{others} more came from other clients" if others else "")


def _named(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in counts.items() if count)
