"""The facts of the diagnosis: the newest points of a reading, and what the server says of itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from math import fsum

from headway_dashboard.analysis.catalogue import causes, engine_panels, panels
from headway_dashboard.analysis.diagnosis.doubling_gain import doubling_gain
from headway_dashboard.analysis.queries.model import Point, value_of
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.server import descriptions, tile_notes
from headway_dashboard.analysis.server.engine_deaths import RECYCLE, last_cause
from headway_dashboard.analysis.server.newest_values import causes_now, classes_of, now, running_preset
from headway_dashboard.analysis.server.objectives import ClassObjectives
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.analysis.server.stop_words import operator_stop
from headway_policies.diagnosis import IN_ENGINE, WHILE_RUNNING, ClassFacts, Facts, refused_for_load
from headway_policies.engine import EngineState
from headway_policies.request import Outcome

_NOT_WARM = ("pending", "running", "failed")
_NOT_KNOWN = ClassObjectives(None, None, None)
_STATES: Mapping[str, EngineState] = {state.value: state for state in EngineState}


def facts_of(reading: SourceReading, status: Status) -> Facts:
    """The facts of one server. ``reading`` must hold what the Overview page asks for."""
    error_share, failures = now(reading, panels.ERROR_SHARE), causes_now(reading)
    rung_set = status.ladder.ordered is not None
    return Facts(
        engine=_engine(reading, status),
        stopped=_stopped(reading, status),
        planned=_planned(reading, status),
        preset=running_preset(reading)[0],
        strategy=status.strategy,
        adaptive=status.adaptive,
        seats_taken=_seats_taken(reading),
        limit=now(reading, panels.LIMIT),
        ceiling=now(reading, panels.CEILING),
        limit_reason=status.limit_reason,
        reserved_seats=_reserved_seats(reading),
        queued=now(reading, panels.QUEUED),
        oldest_wait_s=now(reading, panels.OLDEST),
        mean_batch=_mean_batch(reading),
        kv_ratio=_kv_ratio(reading),
        doubling_gain=doubling_gain(reading[panels.BATCH].line(), reading[panels.TOKENS].line()),
        ended=now(reading, panels.ENDED),
        error_share=error_share,
        failed_share=_share_of(IN_ENGINE, failures, error_share),
        invalid_share=_share_of((Outcome.REJECTED_INVALID,), failures, error_share),
        expired_share=_share_of(WHILE_RUNNING, failures, error_share),
        refused_share=_share_of(refused_for_load(shed_by_command=rung_set), failures, error_share),
        causes=failures,
        rung=_rung(reading, status),
        rung_set=rung_set,
        ttft_p95_s=now(reading, panels.TTFT[0.95]),
        classes=tuple(_class_facts(reading, status, name, failures, rung_set) for name in classes_of(reading)),
    )


# ---------------------------------------------------------------------- whether requests are dispatched


def _engine(reading: SourceReading, status: Status) -> EngineState | None:
    """The engine's state. A server that is not warm yet reports the state lost as well: that is no lost engine."""
    state = _reported_engine(reading, status)
    if state is EngineState.LOST and (not status.known or status.warmup.state in _NOT_WARM):
        return None
    return state


def _stopped(reading: SourceReading, status: Status) -> str:
    """The reason why no request is dispatched, in the server's words where it says so; empty during dispatch."""
    if status.reasons:
        return ", ".join(status.reasons)
    if _rung(reading, status) == "pause":
        return "the fallback ladder is on its rung pause"
    if status.admission not in ("", "open"):
        return f"admission is {status.admission}"
    if _reported_engine(reading, status) is EngineState.LOST:
        return "the engine is gone or not warm"
    return "the server is not ready" if now(reading, panels.READY) == 0 else ""


def _planned(reading: SourceReading, status: Status) -> bool:
    """Whether the stop was commanded; without a status by the last engine's end, while another one is being started."""
    if status.known or descriptions.engine_state_of(reading) != EngineState.RESTARTING.value:
        return status.recycling or (status.admission == "draining" and not operator_stop(status))
    return last_cause(reading[engine_panels.DEATHS_BY_CAUSE]) == RECYCLE


def _reported_engine(reading: SourceReading, status: Status) -> EngineState | None:
    return _STATES.get(status.engine.state or descriptions.engine_state_of(reading))


def _rung(reading: SourceReading, status: Status) -> str:
    return status.ladder.rung or descriptions.rung(reading)


# ---------------------------------------------------------------------- seats and memory


def _seats_taken(reading: SourceReading) -> Point:
    """Seats taken; a server without that metric has the sequences of an engine step."""
    taken = now(reading, panels.SEATS)
    return _mean_batch(reading) if taken is None else taken


def _mean_batch(reading: SourceReading) -> Point:
    """The mean batch of an engine, times the number of engines whose seats the limit counts together."""
    batch, limit, of_one = (now(reading, figure) for figure in (panels.BATCH, panels.LIMIT, panels.LIMIT_OF_ONE))
    return batch * limit / of_one if batch is not None and limit and of_one else batch


def _reserved_seats(reading: SourceReading) -> float:
    """Seats that are kept for a class and free: the metric counts those that the class has taken, too."""
    return fsum(_reserved_for(reading, *labels) for labels in reading[panels.RESERVED_SEATS_BY_CLASS].lines)


def _reserved_for(reading: SourceReading, name: str) -> float:
    reserved, running = reading[panels.RESERVED_SEATS_BY_CLASS], reading[panels.IN_FLIGHT_BY_CLASS]
    return max(0.0, (reserved.latest(name) or 0.0) - (running.latest(name) or 0.0))


def _kv_ratio(reading: SourceReading) -> Point:
    """KV cache in use. The engine reports it with each step: without a sequence the last report is of the past."""
    ratio = now(reading, panels.KV_USE)
    return 0.0 if ratio is not None and now(reading, panels.SEATS) == 0 else ratio


# ---------------------------------------------------------------------- errors and classes


def refused_share(reading: SourceReading) -> Point:
    """The share of the requests that are refused for the load; the reading holds errors by cause and their share."""
    return _share_of(refused_for_load(shed_by_command=False), causes_now(reading), now(reading, panels.ERROR_SHARE))


def _share_of(names: Collection[str], failures: Mapping[str, float], error_share: Point) -> Point:
    """The share of requests that ended by one of these causes: their part of the error share."""
    if not error_share:
        return error_share
    whole = fsum(failures.values())
    part = fsum(failures.get(causes.words(name), 0.0) for name in names)
    return error_share * part / whole if whole > 0 else None


def _valid_part(failures: Mapping[str, float]) -> float:
    """The share of errors without invalid requests."""
    whole = fsum(failures.values())
    return 1.0 - failures.get(causes.words(Outcome.REJECTED_INVALID), 0.0) / whole if whole > 0 else 1.0


def _causes_of(reading: SourceReading, name: str) -> dict[str, float]:
    """Errors a second of each cause in a class, by its words."""
    found = defaultdict[str, float](float)
    for (of_class, *labels), line in reading[panels.ERRORS_BY_CLASS_AND_CAUSE].lines.items():
        if of_class == name and line and line[-1]:
            found[causes.words(value_of(tuple(labels)))] += line[-1]
    return dict(found)


def _class_facts(
    reading: SourceReading, status: Status, name: str, failures: Mapping[str, float], rung_set: bool
) -> ClassFacts:
    own = _causes_of(reading, name)
    activity = (panels.ARRIVALS_BY_CLASS, panels.QUEUED_BY_CLASS, panels.IN_FLIGHT_BY_CLASS)
    objectives, errors = status.objectives.get(name, _NOT_KNOWN), reading[panels.ERROR_SHARE_BY_CLASS].latest(name)
    return ClassFacts(
        name,
        ttft_p95_s=reading[panels.TTFT_P95_BY_CLASS].latest(name),
        inter_token_p95_s=reading[panels.INTER_TOKEN_P95_BY_CLASS].latest(name),
        error_share=None if errors is None else errors * _valid_part(own or failures),
        ended=reading[panels.ENDED_BY_CLASS].latest(name),
        refused_share=_share_of(refused_for_load(shed_by_command=rung_set), own, errors),
        causes=own,
        ttft_slo_s=tile_notes.objectives(reading, status).get(name, objectives.ttft_slo_s),
        first_token_timeout_s=objectives.first_token_timeout_s,
        inter_token_slo_s=tile_notes.between_objectives(reading, status).get(name, objectives.inter_token_slo_s),
        reserved_seats=_reserved_for(reading, name),
        overloaded=reading[panels.OVERLOADED_BY_CLASS].latest(name) == 1,
        idle=all(reading[figure].latest(name) == 0 for figure in activity),
    )
