"""The book of budgets: the use of every owner in this hour, day and month, and whether a request fits.

    used      by requests that have ended in the period, as the accounting counts them; also by other servers
    held      by requests in progress: 1 for each request, and its estimated tokens
    fits      used + held + estimate <= limit, for each bound of the tenant and of its organisation

A request counts in the period in which it ends. Where no estimate is below the real use, a bound of requests or tokens
is never exceeded, also over a restart: the earlier use is read from the accounting (``count_others``). Seat seconds are
known at the end only, so the requests that run when that bound is reached exceed it.

A tenant that ``borrows`` may exceed its own bound by the unused part of its organisation's bound. The rest of each
member's bound is kept for that member, but for what it left unused. ``rest`` is the rest of the period, 0 to 1:

    unused    the most that the member's use has been behind the time: limit * (1 - rest) - used - held
    kept      limit - unused - used - held
    lent      a request beyond what is kept for its tenant fits where used + held + estimate + all that is kept after it
              is within the limit of the organisation

So the unused part is lent gradually over the period. Where the bounds of the members add up to at most the bound of the
organisation, what is kept for a member is available to it at any time, whatever the others have borrowed. In return a
member that has used more than in proportion to the time may have to wait.

The cost of a call is O(bounds), and O(members) in an organisation with a member that borrows. A bound that changes
keeps its use. Where the clock is set, each period has its own use: of a span the last two are kept, so one to which the
clock returns has nothing given back, and none is closed for longer than it lasts. A period that is not kept begins at
0, until the accounting is read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from headway_policies.budgets.budget import Bound, Budget, Owned, Unit
from headway_policies.budgets.calendar import Calendar, Span, Stretch

#: The periods of a span that are kept.
_KEPT = 2
#: ``Retry-After`` where only requests in progress prevent a request.
_SOON_S = 5.0
#: ``Retry-After`` where only the parts that are kept for other members do.
_KEPT_AGAIN_S = 60.0


class Action(StrEnum):
    """The consequence for a request, the worst last."""

    LOWER = "lower"
    REFUSE = "refuse"


class Finding(NamedTuple):
    """A bound that a request does not fit.

    ``bound`` is its name in a keys file. ``retry_after_s`` is the time until such a request may fit; None: never, since
    it is larger than the limit. ``counts_only``: the finding has no consequence.
    """

    action: Action
    owner: str
    bound: str
    limit: float
    retry_after_s: float | None
    counts_only: bool


class BudgetState(NamedTuple):
    """The use of one bound. ``resets_s`` is the end of its period in seconds since 1970, None for ``concurrency``."""

    bound: str
    limit: float
    used: float
    held: float
    resets_s: float | None


class Hold(NamedTuple):
    """The amounts that one request in progress holds, until ``release``."""

    owners: tuple[str, ...]
    tokens: float


@dataclass(slots=True)
class _Window:
    """The use of one owner in one period; ``others``: by other servers, or by this one before it was started.

    ``unused``: the most that its use has been behind the time, as far as anybody asked.
    """

    stretch: Stretch
    own: dict[Unit, float] = field(default_factory=lambda: dict.fromkeys(Unit, 0.0))
    others: dict[Unit, float] = field(default_factory=lambda: dict.fromkeys(Unit, 0.0))
    unused: dict[Unit, float] = field(default_factory=lambda: dict.fromkeys(Unit, 0.0))

    def used(self, unit: Unit) -> float:
        return self.own[unit] + self.others[unit]


class BudgetBook:
    """The use of all owners, by their labels. ``now_s`` is in seconds since 1970."""

    def __init__(self) -> None:
        self._windows: dict[str, dict[Span, list[_Window]]] = {}
        self._held: dict[str, dict[Unit, float]] = {}
        self._calendars: dict[str, Calendar] = {}
        self._owners: dict[str, tuple[Owned, ...]] = {}

    def judge(self, owners: Sequence[Owned], tokens: float, now_s: float) -> list[Finding]:
        """The bounds that a request of so many tokens does not fit: those of its tenant, the first owner, and of its
        organisation. Nothing is held.
        """
        found = [finding for owner in owners for finding in self._of(owner, tokens, now_s)]
        if len(owners) < 2 or not any(budget.borrows for budget in owners[1].members.values()):
            return found
        return self._lent(found, owners[0], owners[1], tokens, now_s)

    def hold(self, owners: Sequence[Owned], tokens: float) -> Hold:
        """A request begins, and holds its tokens until ``release``. ``add`` counts its use."""
        if owners:
            self._owners[owners[0].name] = tuple(owners)
        hold = Hold(tuple(owner.label for owner in owners), tokens)
        self._change(hold, 1)
        return hold

    def release(self, hold: Hold) -> None:
        """A request is over; called once for each hold."""
        self._change(hold, -1)

    def add(self, tenant: str, requests: int, tokens: float, seat_s: float, ended_s: float) -> None:
        """Count the use of a request whose tenant has had a budget since the start."""
        used = {Unit.REQUESTS: float(requests), Unit.TOKENS: tokens, Unit.SEAT_SECONDS: seat_s}
        for owner in self._owners.get(tenant, ()):
            for span in Span:
                own = self._window(owner, span, ended_s).own
                for unit, amount in used.items():
                    own[unit] += amount

    def knows(self, owner: Owned) -> bool:
        """Whether an owner has used anything, or was asked about."""
        return owner.label in self._windows

    def own(self, owner: Owned, span: Span, now_s: float) -> Mapping[Unit, float]:
        """The use by requests of this server in the period."""
        return dict(self._window(owner, span, now_s).own)

    def count_others(
        self, owner: Owned, span: Span, start_s: float, least: Mapping[Unit, float], most: Mapping[Unit, float]
    ) -> None:
        """Bound the use of an owner elsewhere, beside ``own``, in the period that began at ``start_s``; another period
        is ignored. The earlier figure changes only as far as it is outside ``least`` and ``most``.
        """
        if not owner.members:
            self._owners.setdefault(owner.name, (owner,))
        window = self._window(owner, span, start_s)
        if window.stretch.start_s == start_s:
            others = window.others
            window.others = {unit: max(0.0, min(max(others[unit], least[unit]), most[unit])) for unit in Unit}

    def states(self, owner: Owned, now_s: float) -> Iterator[BudgetState]:
        """Every bound of an owner."""
        held = self._held_by(owner.label)
        for bound, limit in owner.budget.limits.items():
            window = self._window(owner, bound.span, now_s)
            yield BudgetState(bound.name, limit, window.used(bound.unit), held[bound.unit], window.stretch.end_s)
        if owner.budget.concurrency is not None:
            yield BudgetState("concurrency", owner.budget.concurrency, 0.0, held[Unit.REQUESTS], None)

    # ------------------------------------------------------------------ inside

    def _of(self, owner: Owned, tokens: float, now_s: float) -> Iterator[Finding]:
        budget, held = owner.budget, self._held_by(owner.label)
        if budget.concurrency is not None and held[Unit.REQUESTS] >= budget.concurrency:
            yield _finding(Action.REFUSE, owner, "concurrency", budget.concurrency, _SOON_S)
        for bound, limit in budget.limits.items():
            window, more = self._window(owner, bound.span, now_s), _asked(bound, tokens)
            used = window.used(bound.unit)
            after = used + held[bound.unit] + more
            if after > limit or (bound.unit is Unit.SEAT_SECONDS and used >= limit):
                until_s: float | None = max(_SOON_S, window.stretch.end_s - now_s)
                if more > limit:
                    until_s = None
                elif used + more <= limit and bound.unit is not Unit.SEAT_SECONDS:
                    until_s = _SOON_S
                yield _finding(Action.REFUSE, owner, bound.name, limit, until_s)
            elif budget.soft_ratio is not None and after > budget.soft_ratio * limit:
                yield _finding(Action.LOWER, owner, bound.name, limit, window.stretch.end_s - now_s)

    def _lent(
        self, found: list[Finding], tenant: Owned, organisation: Owned, tokens: float, now_s: float
    ) -> list[Finding]:
        """The findings after lending: what the organisation lends is lowered; what it keeps for others is refused."""
        for bound, limit in organisation.budget.limits.items():
            more = _asked(bound, tokens)
            shared = any(bound in budget.limits for budget in organisation.members.values())
            if not shared or bound.unit is Unit.SEAT_SECONDS:
                continue
            own = next((finding for finding in found if finding[:3] == (Action.REFUSE, tenant.label, bound.name)), None)
            if self._has_room(tenant, organisation, bound, more, now_s):
                if own is not None and tenant.budget.borrows:
                    found = [own._replace(action=Action.LOWER) if finding is own else finding for finding in found]
            elif own is None:
                found = [*found, _finding(Action.REFUSE, organisation, bound.name, limit, _KEPT_AGAIN_S)]
        return found

    def _has_room(self, tenant: Owned, organisation: Owned, bound: Bound, more: float, now_s: float) -> bool:
        """Whether a request fits in what is kept for its tenant, or in what is kept for no member."""
        window = self._window(organisation, bound.span, now_s)
        rest_ratio = window.stretch.rest_ratio(now_s)
        if more <= self._kept(tenant, bound, 0.0, rest_ratio, now_s):
            return True
        used = window.used(bound.unit) + self._held_by(organisation.label)[bound.unit]
        kept = sum(
            self._kept(Owned(name, budget), bound, more if name == tenant.name else 0.0, rest_ratio, now_s)
            for name, budget in organisation.members.items()
        )
        return used + more + kept <= organisation.budget.limits[bound]

    def _kept(self, member: Owned, bound: Bound, more: float, rest_ratio: float, now_s: float) -> float:
        """The part of an organisation's bound that is kept for a member after it has used ``more``."""
        limit = member.budget.limits.get(bound)
        if limit is None:
            return 0.0
        window, unit = self._window(member, bound.span, now_s), bound.unit
        used = window.used(unit) + self._held_by(member.label)[unit]
        window.unused[unit] = max(window.unused[unit], limit * (1 - rest_ratio) - used)
        return max(0.0, limit - window.unused[unit] - used - more)

    def _window(self, owner: Owned, span: Span, time_s: float) -> _Window:
        """The period of an owner at a time; a new one where it is not kept, or where the calendar has changed."""
        label, calendar = owner.label, owner.budget.calendar
        if self._calendars.get(label, calendar) != calendar:
            self._windows.pop(label, None)
        self._calendars[label] = calendar
        kept = self._windows.setdefault(label, {}).setdefault(span, [])
        for window in reversed(kept):
            if window.stretch.start_s <= time_s < window.stretch.end_s:
                return window
        kept.append(_Window(calendar.stretch(span, time_s)))
        del kept[:-_KEPT]
        return kept[-1]

    def _held_by(self, label: str) -> Mapping[Unit, float]:
        return self._held.get(label) or dict.fromkeys(Unit, 0.0)

    def _change(self, hold: Hold, sign: int) -> None:
        for label in hold.owners:
            held = self._held.setdefault(label, dict.fromkeys(Unit, 0.0))
            held[Unit.REQUESTS] += sign
            held[Unit.TOKENS] += sign * hold.tokens
            if held[Unit.REQUESTS] <= 0:
                del self._held[label]


def _asked(bound: Bound, tokens: float) -> float:
    """The amount that a request of so many tokens asks for; its seat seconds are known at its end only."""
    return {Unit.REQUESTS: 1.0, Unit.TOKENS: tokens, Unit.SEAT_SECONDS: 0.0}[bound.unit]


def _finding(action: Action, owner: Owned, bound: str, limit: float, retry_after_s: float | None) -> Finding:
    return Finding(action, owner.label, bound, limit, retry_after_s, owner.budget.counts_only)


def budgets_of(tenant: str, own: Budget | None, organisation: Owned | None) -> tuple[Owned, ...]:
    """The owners that a request of a tenant is judged by; empty where nothing bounds it."""
    if own is None and organisation is None:
        return ()
    first = Owned(tenant, Budget() if own is None else own)
    return (first,) if organisation is None else (first, organisation)
