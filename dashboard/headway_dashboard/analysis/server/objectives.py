"""The objectives of each class, from the settings of a preset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from headway.api.schema import Setting


@dataclass(frozen=True, slots=True)
class ClassObjectives:
    """How long a first token and the time between two tokens of a class may take, in seconds.

    Infinite where the class states none; None where what stands there is no positive number.
    """

    ttft_slo_s: float | None = inf
    first_token_timeout_s: float | None = inf
    inter_token_slo_s: float | None = inf


def objectives_of(settings: Mapping[str, Setting]) -> dict[str, ClassObjectives]:
    """The objectives of each class of a preset; none where its settings are not known."""
    keys = [key.split(".") for key in settings]
    names = dict.fromkeys(parts[1] for parts in keys if len(parts) == 3 and parts[0] == "classes")
    return {name: _of_class(settings, name) for name in names}


def _of_class(settings: Mapping[str, Setting], name: str) -> ClassObjectives:
    def stated(term: str, unit_s: float = 1.0) -> float | None:
        return _positive(settings.get(f"classes.{name}.{term}", inf), unit_s)

    return ClassObjectives(
        ttft_slo_s=stated("ttft_slo_s"),
        first_token_timeout_s=stated("first_token_timeout_s"),
        inter_token_slo_s=stated("inter_token_slo_ms", 0.001),
    )


def _positive(value: Setting, unit_s: float) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        return None
    return float(value) * unit_s
