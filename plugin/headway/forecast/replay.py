"""The recorded requests under one preset, on the model of the engine, and the figures of it.

The first replay has the requests as they were recorded; what is not known, the lengths of the answers that were not
completed, is drawn from the known ones of their class. In each further one the known lengths are shuffled within their
class too, as parts of what the clients said where they said a length. The speed of an unsteady engine varies in another
way in each replay. How far the figures move shows what chance there is in them.

The first tenth of the time, at most 30 s, fills the engine and is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from headway.forecast.figures import ClassFigures, Figures
from headway.forecast.job import MOST_SEQUENCES, ForecastError
from headway.recorder import Recording
from headway_policies import Outcome, Preset
from headway_simulator import EngineModel, Request, Visit, simulate, spread, stated_by
from headway_simulator.report.class_slo import ClassSlo
from headway_simulator.run.result import Result
from headway_simulator.traffic.trace import Row, Trace, length_of, relative_length
from headway_simulator.traffic.traffic import warmup_s_of

_TIMED_OUT = (Outcome.EXPIRED_QUEUED, Outcome.EXPIRED_RUNNING)


def recorded(recording: Recording, most: int = MOST_SEQUENCES) -> Trace:
    """The newest requests of a recording. Raises ForecastError where there are none, or no answer is known."""
    rows, place, end_s = list[Row](), len(recording), recording.now_s
    while place and len(rows) < most:
        place -= 1
        tenant = recording.tenant[place]
        row = Row(
            recording.at_s[place],
            max(1, recording.prompt_tokens[place]),
            recording.output_tokens[place],
            recording.class_names[recording.class_index[place]],
            str(tenant) if tenant else "",
            recording.max_tokens[place] or None,
        )
        rows += [row] * recording.sequences[place]
    if not rows:
        raise ForecastError("no request has arrived in the last half hour: there is nothing to replay")
    if not any(row.output_tokens for row in rows):
        raise ForecastError("no request has completed yet: the lengths of the answers are not known")
    begin_s = rows[-1].at_s if place else end_s - recording.span_s
    return Trace("recorded", [row._replace(at_s=row.at_s - begin_s) for row in reversed(rows)], tells_length=True)


def drawn(trace: Trace, seed: int) -> list[Request]:
    """The requests of one replay; 0 is the one with the lengths as they were recorded."""
    if seed == 0:
        return trace.requests(seed)
    random = Random(seed)  # noqa: S311 - to be repeatable
    lengths: dict[tuple[str, bool], list[float]] = {}
    for row in trace.rows:
        if row.output_tokens:
            lengths.setdefault(_kind(row), []).append(relative_length(row))
    for own in lengths.values():
        random.shuffle(own)
    rows = [
        row._replace(output_tokens=length_of(row, lengths[_kind(row)].pop())) if row.output_tokens else row
        for row in trace.rows
    ]
    return Trace(trace.name, rows, trace.tells_length).requests(seed)


def _kind(row: Row) -> tuple[str, bool]:
    """The rows among which lengths may be exchanged: those of a class that all said a length, or none."""
    return row.class_name, row.max_tokens is None


def replay(
    requests: Sequence[Request],
    span_s: float,
    preset: Preset,
    model: EngineModel,
    seed: int,
) -> Figures:
    """Serve the requests, which arrived in ``span_s`` seconds, under a preset. ``seed`` draws how the engine varies."""
    if model.variation is not None:
        model = replace(model, variation=replace(model.variation, seed=seed))
    result = simulate(requests, preset, model, seed=seed)
    begin_s, own = warmup_s_of(span_s), stated_by(preset, model, requests)
    counted = [visit for visit in result.visits if visit.arrived_s >= begin_s] or result.visits
    by_class: dict[str, list[Visit]] = {}
    for visit in counted:
        by_class.setdefault(visit.request.class_name, []).append(visit)
    seconds = max(span_s - begin_s, 1e-3)
    everything = _class(counted, own)
    return Figures(
        tokens_per_s=_tokens(result, begin_s, span_s) / seconds,
        mean_batch=_mean_batch(result.visits, begin_s, span_s),
        goodput_per_s=None if everything.good is None else everything.good / seconds,
        all=everything,
        classes={name: _class(visits, own) for name, visits in by_class.items()},
    )


def _class(visits: Sequence[Visit], own: Mapping[str, ClassSlo]) -> ClassFigures:
    judged = [visit for visit in visits if visit.class_name in own]
    ttft, between = spread(visit.ttft_s for visit in visits), spread(visit.inter_token_s for visit in visits)
    return ClassFigures(
        offered=len(visits),
        completed=sum(visit.outcome is Outcome.COMPLETED for visit in visits),
        refused=sum(
            visit.outcome is not None and visit.outcome not in (Outcome.COMPLETED, *_TIMED_OUT) for visit in visits
        ),
        timed_out=sum(visit.outcome in _TIMED_OUT for visit in visits),
        good=sum(own[visit.class_name].kept(visit) for visit in judged) if judged else None,
        ttft_s=(ttft.p50_s, ttft.p95_s, ttft.p99_s),
        inter_token_s=(between.p50_s, between.p95_s, between.p99_s),
    )


def _tokens(result: Result, begin_s: float, end_s: float) -> float:
    """The tokens made in this time: those of an answer come evenly from its first to its end."""
    total = 0.0
    for visit in result.visits:
        if visit.first_s is not None and visit.ended_s is not None and visit.made_tokens:
            total += begin_s <= visit.first_s <= end_s  # the first token; the others follow it
            inside_s = max(0.0, min(visit.ended_s, end_s) - max(visit.first_s, begin_s))
            if length_s := visit.ended_s - visit.first_s:
                total += (visit.made_tokens - 1) * min(1.0, inside_s / length_s)
    return total


def _mean_batch(visits: Sequence[Visit], begin_s: float, end_s: float) -> float:
    """The mean number of sequences in the engine, over the time in which there were any."""
    spans = sorted(
        (max(visit.dispatched_s, begin_s), min(visit.ended_s, end_s))
        for visit in visits
        if visit.dispatched_s is not None and visit.ended_s is not None
        and visit.dispatched_s < end_s and visit.ended_s > begin_s
    )  # fmt: skip
    busy_s, until_s = 0.0, begin_s
    for first_s, last_s in spans:
        busy_s += max(0.0, last_s - max(first_s, until_s))
        until_s = max(until_s, last_s)
    return sum(last_s - first_s for first_s, last_s in spans) / busy_s if busy_s else 0.0
