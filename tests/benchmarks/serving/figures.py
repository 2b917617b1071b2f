"""The figures of an arm, from the answers of its blocks.

Counted are the requests that were due in the counted part of a block. One is good when its first token came within
the objective, and its tokens within the objective on the mean, to its end or to the end of the block.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import mean, median
from typing import TYPE_CHECKING, Any, TypeVar

from headway_policies.usage import max_min
from headway_simulator.engine_model.capacity import Slo
from headway_simulator.report.summary import fairness
from serving.client import Answer

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Block = TypeVar("Block", bound="DataclassInstance")
ALL = "all"
_ANSWERED = ("completed", "cut")


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """One class in one block; seconds, None where nothing was measured. ``served`` ones had a first token."""

    offered: int
    good: int
    good_ttft: int
    ttft_s: tuple[float | None, float | None, float | None]
    inter_token_s: tuple[float | None, float | None, float | None]
    served: int | None = None


@dataclass(frozen=True, slots=True)
class BlockFigures:
    """One block. ``good_ttft_per_s`` counts a first token within twice the objective, whatever the pace.

    ``client_s`` is the processor time of the program with Headway and the client, for each request offered. ``pace``
    is the time of a token alone, the mean of before and after, as a multiple of the one at the start of the run: the
    objectives are multiples of it. With several tenants, ``fairness`` is Jain's index over what each got of its max-min
    share of the tokens, and ``light_ttft_p99_s`` is of those that ask for at most half of the largest share.
    """

    good_per_s: float
    good_ttft_per_s: float
    ceiling_per_s: float
    tokens_per_s: float
    classes: Mapping[str, ClassFigures]
    ended: Mapping[str, int]
    client_s: float
    disturbed: float = 0.0
    pace: float = 1.0
    fairness: float | None = None
    light_ttft_p99_s: float | None = None

    @property
    def refused(self) -> float:
        """The share of the requests that got no answer and were not cut."""
        ended = sum(self.ended.values())
        return 1 - sum(self.ended.get(name, 0) for name in _ANSWERED) / ended if ended else 0.0

    @property
    def of_ceiling(self) -> float:
        """Goodput as a share of the fluid ceiling."""
        return self.good_per_s / self.ceiling_per_s

    def attained(self, name: str) -> float | None:
        """The share of a class's requests that were good; None where it offered none."""
        one = self.classes.get(name)
        return one.good / one.offered if one is not None and one.offered else None

    def served(self, name: str) -> float | None:
        """The share of a class's requests that were served, in time or not; None where it offered none."""
        one = self.classes.get(name)
        return one.served / one.offered if one is not None and one.offered and one.served is not None else None

    def to_json(self) -> dict[str, Any]:
        """A plain object for the results file."""
        return asdict(self)

    @classmethod
    def of_json(cls, plain: Mapping[str, Any]) -> BlockFigures:
        """Read what ``to_json`` wrote."""
        classes = {
            name: ClassFigures(
                one["offered"],
                one["good"],
                one["good_ttft"],
                tuple(one["ttft_s"]),
                tuple(one["inter_token_s"]),
                one.get("served"),
            )
            for name, one in plain["classes"].items()
        }
        return cls(**{**plain, "classes": classes})


def judged(
    answers: Sequence[Answer],
    slo: Slo,
    *,
    count_s: tuple[float, float],
    ceiling_per_s: float,
    client_s: float,
    disturbed: float,
    pace: float = 1.0,
) -> BlockFigures:
    """The figures of the answers that were due between the two times of ``count_s``."""
    begin_s, end_s = count_s
    seen, length_s = [answer for answer in answers if begin_s <= answer.sent_s < end_s], end_s - begin_s
    names = [ALL, *sorted({one.class_name for one in seen})]
    classes = {name: _class([one for one in seen if name in (ALL, one.class_name)], slo) for name in names}
    return BlockFigures(
        classes[ALL].good / length_s,
        classes[ALL].good_ttft / length_s,
        ceiling_per_s,
        sum(one.tokens for one in seen) / length_s,
        classes,
        dict(Counter(one.end for one in seen)),
        client_s / max(1, len(answers)),
        disturbed,
        pace,
        *_between_tenants(seen),
    )


def within(answer: Answer, slo: Slo) -> bool:
    """Whether an answer kept both objectives."""
    if answer.end not in _ANSWERED or answer.ttft_s is None or answer.ttft_s > slo.ttft_s:
        return False
    return answer.inter_token_s is None or answer.inter_token_s <= slo.inter_token_s


def _between_tenants(answers: Sequence[Answer]) -> tuple[float | None, float | None]:
    """Fairness, and the p99 of the first token of the light ones; None for a single tenant."""
    asked, served = Counter[str](), Counter[str]()
    for answer in answers:
        asked[answer.tenant] += answer.prompt_tokens + answer.asked_tokens
        served[answer.tenant] += answer.tokens + (answer.prompt_tokens if answer.tokens else 0)
    if len(asked) < 2:
        return None, None
    most = max(max_min(asked, served.total()).values())
    light = {name for name in asked if asked[name] <= most / 2}
    ttfts_s = (answer.ttft_s for answer in answers if answer.tenant in light and answer.ttft_s is not None)
    return fairness(asked, served), quantiles(ttfts_s)[2]


def _class(answers: Sequence[Answer], slo: Slo) -> ClassFigures:
    ttfts_s = [answer.ttft_s for answer in answers if answer.ttft_s is not None]
    soon = sum(answer.end in _ANSWERED and (answer.ttft_s or math.inf) <= 2 * slo.ttft_s for answer in answers)
    gaps_s = [answer.inter_token_s for answer in answers if answer.inter_token_s is not None]
    good = sum(within(answer, slo) for answer in answers)
    served = sum(answer.end in _ANSWERED and answer.first_s is not None for answer in answers)
    return ClassFigures(len(answers), good, soon, quantiles(ttfts_s), quantiles(gaps_s), served)


def quantiles(values: Iterable[float]) -> tuple[float | None, float | None, float | None]:
    """p50, p95 and p99 by nearest rank; None for nothing."""
    ranked = sorted(values)
    if not ranked:
        return (None, None, None)
    p50, p95, p99 = (ranked[max(0, math.ceil(share * len(ranked)) - 1)] for share in (0.5, 0.95, 0.99))
    return (p50, p95, p99)


def middle(values: Iterable[float | None]) -> tuple[float, float, float] | None:
    """Median, least and largest of what is there; None for nothing."""
    known = [value for value in values if value is not None]
    return (median(known), min(known), max(known)) if known else None


def mean_of(blocks: Iterable[tuple[str, Block]], arm: str) -> Block:
    """The means of each number over the blocks of one arm."""
    own = [block for name, block in blocks if name == arm]
    return type(own[0])(*(mean(getattr(one, part.name) for one in own) for part in fields(own[0])))
