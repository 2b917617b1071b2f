"""The objectives of each class: the numbers of this engine from the status, where the preset states multiples of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from headway.api.schema import ClassObjectives as ClassObjectivesNow
from headway.api.schema import Setting


@dataclass(frozen=True, slots=True)
class ClassObjectives:
    """The objectives of a class for a first token and the time between two tokens, in seconds.

    Infinite where the class states none; None where what stands there is no positive number, or a multiple of an engine
    that has not been measured. ``multiple`` is that of the first token ("8x"), empty for an absolute objective.
    ``words`` are both with where they come from, ``missed_alone`` those that the engine misses even for a request
    alone; empty from a server that does not tell.
    """

    ttft_slo_s: float | None = inf
    first_token_timeout_s: float | None = inf
    inter_token_slo_s: float | None = inf
    multiple: str = ""
    words: str = ""
    missed_alone: tuple[str, ...] = ()


def objectives_of(
    settings: Mapping[str, Setting], now: Mapping[str, ClassObjectivesNow] | None = None
) -> dict[str, ClassObjectives]:
    """The objectives of each class of a preset; ``now`` has the numbers of this engine, by class."""
    keys = [key.split(".") for key in settings]
    names = dict.fromkeys(parts[1] for parts in keys if len(parts) == 3 and parts[0] == "classes")
    return {name: _of_class(settings, name, (now or {}).get(name)) for name in names}


def merged_objectives(servers: Sequence[Mapping[str, ClassObjectives]]) -> dict[str, ClassObjectives]:
    """The objectives of several servers under one preset: of a multiple, a number of each engine's own, the longest.

    None where the servers state different ones.
    """
    first = servers[0] if servers else {}
    if any(server.keys() != first.keys() for server in servers):
        return {}
    together = {name: _longest([server[name] for server in servers]) for name in first}
    return {name: goal for name, goal in together.items() if goal is not None} if None not in together.values() else {}


def objective_lines(objectives: Mapping[str, ClassObjectives], classes: Sequence[str]) -> list[str]:
    """The objectives in force in one line, and a line for each that the engine misses even for a request alone."""
    known = {name: objectives[name] for name in classes if name in objectives}
    said = "; ".join(f"{name}: {goal.words}" for name, goal in known.items() if goal.words)
    missed = [f"{sentence}." for goal in known.values() for sentence in goal.missed_alone]
    return ([f"Objectives: {said}."] if said else []) + missed


def _longest(found: Sequence[ClassObjectives]) -> ClassObjectives | None:
    if all(goal == found[0] for goal in found):
        return found[0]
    if not found[0].words or any((goal.multiple, bool(goal.words)) != (found[0].multiple, True) for goal in found):
        return None
    ttft, between = ([getattr(goal, name) for goal in found] for name in ("ttft_slo_s", "inter_token_slo_s"))
    longest = ClassObjectives(_most(ttft), found[0].first_token_timeout_s, _most(between), found[0].multiple)
    return replace(longest, missed_alone=tuple(dict.fromkeys(text for goal in found for text in goal.missed_alone)))


def _most(bounds_s: Sequence[float | None]) -> float | None:
    known = [bound_s for bound_s in bounds_s if bound_s is not None]
    return max(known) if len(known) == len(bounds_s) else None


def _of_class(settings: Mapping[str, Setting], name: str, now: ClassObjectivesNow | None) -> ClassObjectives:
    def stated(term: str, unit_s: float = 1.0, resolved_s: float | None = None) -> float | None:
        value = settings.get(f"classes.{name}.{term}", inf)
        return _positive(resolved_s, 1.0) if isinstance(value, str) else _positive(value, unit_s)

    ttft = settings.get(f"classes.{name}.ttft_slo_s")
    return ClassObjectives(
        ttft_slo_s=stated("ttft_slo_s", resolved_s=None if now is None else now.ttft_s),
        first_token_timeout_s=stated("first_token_timeout_s"),
        inter_token_slo_s=stated("inter_token_slo_ms", 0.001, None if now is None else now.inter_token_s),
        multiple=ttft.partition(" ")[0] if isinstance(ttft, str) else "",
        words="" if now is None else now.words,
        missed_alone=() if now is None else tuple(now.missed_alone),
    )


def _positive(value: Setting | None, unit_s: float) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        return None
    return float(value) * unit_s
