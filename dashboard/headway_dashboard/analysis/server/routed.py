"""The instances behind a router (``headway route``): a row each, from the metrics of the router."""

from __future__ import annotations

from headway_dashboard.analysis.queries.expressions import Expression, Gauge, Mean, Metric, Rate
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.units import compact, written

_NAME, _ENDED, _SENT_BY = "instance_name", "ended", "sent_by"


def _of_each(name: str, *labels: str) -> Metric:
    return Metric(f"headway_instance_{name}", by=(_NAME, *labels))


UP = Gauge(_of_each("up"), least=True)
SEATS = Gauge(_of_each("seats"), least=True)
RUNNING = Gauge(_of_each("running", _SENT_BY))
KV_USE = Gauge(_of_each("kv_cache_usage_ratio"), largest=True)
FIRST_TOKEN = Mean(_of_each("time_to_first_token_seconds"))
INTER_TOKEN = Mean(_of_each("inter_token_seconds"))
EXCHANGES = Rate(_of_each("exchanges_total", _ENDED))
EXPRESSIONS: tuple[Expression, ...] = (UP, SEATS, RUNNING, KV_USE, FIRST_TOKEN, INTER_TOKEN, EXCHANGES)
EXPLANATION = (
    "A healthy instance answers its readiness route; another one gets no requests. Running: the sequences of this "
    "router, and of other clients where there are any, of its seats. First token and pace: the means of its streams, "
    "from the seat to the first token, and between two tokens. Requests by how they ended there: an instance that "
    "refused one, or was lost with it, left it to another instance where there was one."
)


def instance_rows(reading: SourceReading) -> list[dict[str, str]]:
    """The rows by the names of the instances, with their columns; none where no router is watched.

    ``reading`` holds ``EXPRESSIONS``.
    """
    names = sorted(labels[0] for labels, line in reading[UP].lines.items() if line and line[-1] is not None)
    return [_row(reading, name) for name in names]


def _row(reading: SourceReading, name: str) -> dict[str, str]:
    def per_s(ended: str) -> str:
        return written(reading[EXCHANGES].latest(name, ended), "per_s")

    return {
        "Instance": name,
        "State": "healthy" if reading[UP].latest(name) == 1 else "away",
        "Running": _running(reading, name),
        "KV cache": written(reading[KV_USE].latest(name), "ratio"),
        "First token": written(reading[FIRST_TOKEN].latest(name), "seconds"),
        "Pace": written(reading[INTER_TOKEN].latest(name), "seconds"),
        "Answered": per_s("answered"),
        "Refused": per_s("refused"),
        "Lost": per_s("lost"),
        "Aborted": per_s("aborted"),
    }


def _running(reading: SourceReading, name: str) -> str:
    own, others = (reading[RUNNING].latest(name, sent_by) for sent_by in ("router", "others"))
    beside = f" + {compact(others)} of others" if others else ""
    return f"{written(own, 'count')}{beside} / {written(reading[SEATS].latest(name), 'count')}"
