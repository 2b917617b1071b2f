"""The signals of the scaling policy: the readings of all replicas, put together.

Ray Serve passes numbers by name only, so each replica sends its reading as ``figures``, and gets back what all of them
sent in the last seconds as ``{name: {replica: [values, the oldest first]}}``.

    capacity   seats of one server / mean time that a request holds its seat (Little's law), in requests a second
    arrivals   the sum of the demands, each a multiple of one server, times that capacity
    queues     of each class the sum of the depths and the largest age
    attained   the share of the requests judged in the last seconds that met their objectives
    KV use     the mean over the servers
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from headway_fleet.reading import Reading
from headway_policies.scaling import ClassQueue, ScalingSignals

History = Mapping[str, Mapping[str, Sequence[float]]]

#: For a class without an objective for its first token, and for the seats before any request has ended.
USUAL_OBJECTIVE_S = 60.0
_USUAL_SEAT_S = 1.0
_PLAIN = ("seats", "demand", "kv_use", "seat_s", "seated", "judged", "met")


def figures(reading: Reading) -> dict[str, float]:
    """A reading as numbers by name."""
    plain = {name: float(getattr(reading, name)) for name in _PLAIN}
    for name, one in reading.classes.items():
        plain[f"depth {name}"] = float(one.depth)
        plain[f"age_s {name}"] = one.age_s
        plain[f"objective_s {name}"] = one.objective_s or USUAL_OBJECTIVE_S
    return plain


def signals(history: History, ready: int) -> ScalingSignals:
    """The signals of ``ready`` replicas, of which some may have sent nothing yet."""
    newest = {name: [values[-1] for values in sent.values() if len(values)] for name, sent in history.items()}
    seats, seated = newest.get("seats", []), _growth(history, "seated")
    seat_s = _growth(history, "seat_s") / seated if seated else _USUAL_SEAT_S
    mean_seats = sum(seats) / len(seats) if seats else 1.0
    capacity_per_s = max(mean_seats, 1.0) / max(seat_s, 1e-3)
    judged, kv_uses = _growth(history, "judged"), newest.get("kv_use", [])
    return ScalingSignals(
        ready=ready,
        offered=sum(newest.get("demand", [])) * capacity_per_s,
        capacity=capacity_per_s,
        queues={name.removeprefix("depth "): _queue(newest, name) for name in newest if name.startswith("depth ")},
        attained_ratio=_growth(history, "met") / judged if judged else None,
        kv_use=sum(kv_uses) / len(kv_uses) if kv_uses else None,
    )


def _queue(newest: Mapping[str, Sequence[float]], depth: str) -> ClassQueue:
    name = depth.removeprefix("depth ")
    ages_s, objectives_s = newest.get(f"age_s {name}", []), newest.get(f"objective_s {name}", [])
    return ClassQueue(int(sum(newest[depth])), max(ages_s, default=0.0), min(objectives_s, default=USUAL_OBJECTIVE_S))


def _growth(history: History, name: str) -> float:
    """By how much a count grew, over all replicas; one that fell is of a server that began anew, from 0."""
    steps = (step for values in history.get(name, {}).values() for step in pairwise(values))
    return float(sum(after - before if after >= before else after for before, after in steps))
