"""The figures of what one server was offered, by class, in memory that does not grow with the number of requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from headway_simulator.engine_model.capacity import Slo
from headway_simulator.report.summary import ALL, fairness
from headway_simulator.traffic.workload import Request
from headway_tools.load.quantiles import Quantiles
from headway_tools.load.served import COMPLETED, FAILED, REFUSED, UNANSWERED, Served

#: How many different reasons are counted by name; the others count together.
MAX_REASONS = 40
_OTHER = "other"
_NONE: Mapping[str, Slo] = {}


@dataclass(slots=True)
class ClassMeasured:
    """The figures of one class, or of all. ``good`` are those completed within both objectives.

    ``refused`` and ``failed`` count by reason; ``advised`` counts the refusals with a Retry-After, of ``advice_s`` from
    the shortest to the longest.
    """

    offered: int = 0
    good: int = 0
    good_tokens: int = 0
    tokens: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    advised: int = 0
    advice_s: tuple[int, int] | None = None
    ttft: Quantiles = field(default_factory=Quantiles)
    inter_token: Quantiles = field(default_factory=Quantiles)

    @property
    def completed(self) -> int:
        """Requests served to their end."""
        return self.endings[COMPLETED]

    @property
    def unanswered(self) -> int:
        """Requests that got neither an answer nor a refusal."""
        return self.offered - self.endings[COMPLETED] - self.endings[REFUSED] - self.endings[FAILED]

    @property
    def attained_ratio(self) -> float:
        """The share of all requests that were completed within both objectives."""
        return self.good / max(self.offered, 1)

    def add(self, served: Served, slo: Slo) -> None:
        """Count one end."""
        self.endings[served.ending] += 1
        self.tokens += served.output_tokens
        if served.within(slo.ttft_s, slo.inter_token_s):
            self.good += 1
            self.good_tokens += served.output_tokens
        if served.ttft_s is not None:
            self.ttft.add(served.ttft_s)
        if served.inter_token_s is not None:
            self.inter_token.add(served.inter_token_s)
        if served.ending == REFUSED:
            _count(self.refused, served.why)
            self._advise(served.retry_after_s)
        elif served.ending in (FAILED, UNANSWERED):
            _count(self.failed, served.why)

    def merge(self, other: ClassMeasured) -> None:
        """Add the figures of another time."""
        self.offered += other.offered
        self.good += other.good
        self.good_tokens += other.good_tokens
        self.tokens += other.tokens
        self.endings.update(other.endings)
        self.refused.update(other.refused)
        self.failed.update(other.failed)
        self.ttft.merge(other.ttft)
        self.inter_token.merge(other.inter_token)
        advised = self.advised + other.advised
        for advice_s in other.advice_s or ():
            self._advise(advice_s)
        self.advised = advised

    def _advise(self, advice_s: int | None) -> None:
        if advice_s is not None:
            self.advised += 1
            least, most = self.advice_s or (advice_s, advice_s)
            self.advice_s = min(least, advice_s), max(most, advice_s)


class Measured:
    """The figures of an arm. Requests that arrived in the first ``warmup_s`` count in ``unanswered`` only.

    ``span_s`` is the time in which the measured requests arrived, ``serving_s`` the time until the last of them had
    ended as well: tokens a second are of that time. ``lag_s`` is the longest delay of a sending. A class is judged by
    its ``own`` objectives, or by ``slo`` where it has none there.
    """

    def __init__(self, slo: Slo, warmup_s: float, span_s: float, own: Mapping[str, Slo] = _NONE) -> None:
        self._slo, self._own = slo, own
        self.warmup_s = warmup_s
        self.span_s = self.serving_s = span_s
        self.lag_s = 0.0
        self.classes: dict[str, ClassMeasured] = {}
        self._unanswered = 0
        self._asked: Counter[str] = Counter()
        self._served: Counter[str] = Counter()

    def offer(self, request: Request) -> None:
        """A request is sent."""
        self._unanswered += 1
        if request.at_s >= self.warmup_s:
            self._of(request).offered += 1
            self._asked[request.tenant] += request.prompt_tokens + request.output_tokens

    def end(self, request: Request, served: Served, ended_s: float) -> None:
        """A request has ended, so many seconds after the beginning."""
        self._unanswered -= served.ending != UNANSWERED
        if request.at_s >= self.warmup_s:
            self.serving_s = max(self.serving_s, ended_s - self.warmup_s)
            self._of(request).add(served, self._own.get(request.class_name, self._slo))
            if served.output_tokens:
                self._served[request.tenant] += request.prompt_tokens + served.output_tokens

    @property
    def unanswered(self) -> int:
        """Requests of the whole time without an answer."""
        return self._unanswered

    @property
    def tokens_per_s(self) -> float:
        """Output tokens a second, of all classes."""
        return self.all.tokens / self.serving_s

    @property
    def all(self) -> ClassMeasured:
        """All classes together."""
        whole = ClassMeasured()
        for figures in self.classes.values():
            whole.merge(figures)
        return whole

    @property
    def jain(self) -> float | None:
        """The fairness between tenants; None where there are not several."""
        return fairness(self._asked, self._served) if len(self._asked) > 1 else None

    def by_class(self) -> dict[str, ClassMeasured]:
        """All together first, then each class."""
        whole = self.all
        return {ALL: whole} | self.classes | {ALL: whole}  # whatever a class is called

    def merge(self, other: Measured) -> None:
        """Add another time of the same arm."""
        self.span_s += other.span_s
        self.serving_s += other.serving_s
        self.lag_s = max(self.lag_s, other.lag_s)
        self._unanswered += other._unanswered
        self._asked.update(other._asked)
        self._served.update(other._served)
        for name, figures in other.classes.items():
            self.classes.setdefault(name, ClassMeasured()).merge(figures)

    def _of(self, request: Request) -> ClassMeasured:
        return self.classes.setdefault(request.class_name, ClassMeasured())


def _count(reasons: Counter[str], why: str) -> None:
    reasons[why if why in reasons or len(reasons) < MAX_REASONS else _OTHER] += 1
