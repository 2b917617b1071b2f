"""The book of budgets: what every owner has used in this hour, day and month, and whether a request fits.

    used      by requests that have ended in the period, as the accounting counts them; also by other servers
    held      by requests in progress: one each, and the tokens that were estimated for it
    fits      used + held + estimate <= limit, for each bound of the tenant and of its organisation

A request counts in the period in which it ends. Where no estimate is below what is used, a bound of requests or tokens
is never exceeded, also over a restart: what was used is read back from the accounting (``count_others``). Seat seconds
are known at the end only, so that bound is exceeded by the requests that run when it is reached.

A tenant that ``borrows`` may exceed its own bound by what its organisation has idle. For each member there is kept what
is left of its bound, but no more than the rest of the period is of the whole:

    kept      min(limit - used - held, limit * rest)
    lent      a request beyond what is kept for its tenant fits where used + held + estimate + all that is kept after it
              is within the limit of the organisation

So what is idle is lent bit by bit. Where the bounds of the members come to no more than that of the organisation, each
member finds at any time what is kept for it, whatever the others have borrowed; also a member that is ahead of its even
share then waits for the others'.

The cost of a call is O(bounds), and O(members) in an organisation with one that borrows. Time never goes back here:
with a clock that does, the newest period stays until the clock has reached its end. A bound that changes keeps what was
used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from headway_policies.budgets.budget import Bound, Budget, Owned, Unit
from headway_policies.budgets.calendar import Calendar, Span, Stretch

#: Until a request in progress may have ended, for what only those in progress are in the way of.
_SOON_S = 5.0
#: Until less may be kept for others.
_KEPT_AGAIN_S = 60.0


class Action(StrEnum):
    """What follows for a request, the worst last."""

    LOWER = "lower"
    REFUSE = "refuse"


class Finding(NamedTuple):
    """A bound that a request does not fit.

    ``bound`` is its name in a keys file, ``retry_after_s`` the time until a request like this may fit: None: never,
    since it is larger than the limit. ``counts_only``: nothing follows.
    """

    action: Action
    owner: str
    bound: str
    limit: float
    retry_after_s: float | None
    counts_only: bool


class BudgetState(NamedTuple):
    """One bound: used and held of its limit, until ``resets_s``, in seconds since 1970; None for ``concurrency``."""

    bound: str
    limit: float
    used: float
    held: float
    resets_s: float | None


class Hold(NamedTuple):
    """What one request in progress holds, until ``release``."""

    owners: tuple[str, ...]
    tokens: float


@dataclass(slots=True)
class _Window:
    """One period of one owner. ``others``: what other servers used, or this one before it was started."""

    stretch: Stretch
    own: dict[Unit, float] = field(default_factory=lambda: dict.fromkeys(Unit, 0.0))
    others: dict[Unit, float] = field(default_factory=lambda: dict.fromkeys(Unit, 0.0))

    def used(self, unit: Unit) -> float:
        return self.own[unit] + self.others[unit]


class BudgetBook:
    """All owners. ``now_s`` is seconds since 1970; owners are told apart by their labels."""

    def __init__(self) -> None:
        self._windows: dict[str, dict[Span, _Window]] = {}
        self._held: dict[str, dict[Unit, float]] = {}
        self._calendars: dict[str, Calendar] = {}
        self._owners: dict[str, tuple[Owned, ...]] = {}
        self._newest_s = 0.0

    def judge(self, owners: Sequence[Owned], tokens: float, now_s: float) -> list[Finding]:
        """The bounds that a request of so many tokens does not fit: of its tenant, which is first, and of its
        organisation. It takes nothing.
        """
        now_s = self._now_s(now_s)
        found = [one for owner in owners for one in self._of(owner, tokens, now_s)]
        if len(owners) < 2 or not any(budget.borrows for budget in owners[1].members.values()):
            return found
        return self._lent(found, owners[0], owners[1], tokens, now_s)

    def hold(self, owners: Sequence[Owned], tokens: float) -> Hold:
        """A request begins. It holds its tokens until its release; what it has used is added apart from that."""
        if owners:
            self._owners[owners[0].name] = tuple(owners)
        hold = Hold(tuple(owner.label for owner in owners), tokens)
        self._change(hold, 1)
        return hold

    def release(self, hold: Hold) -> None:
        """A request is over. Call it once for each hold."""
        self._change(hold, -1)

    def add(self, tenant: str, requests: int, tokens: float, seat_s: float, ended_s: float) -> None:
        """Count what a request of a tenant has used, where the tenant has had a budget since the start."""
        now_s = self._now_s(ended_s)
        used = {Unit.REQUESTS: float(requests), Unit.TOKENS: tokens, Unit.SEAT_SECONDS: seat_s}
        for owner in self._owners.get(tenant, ()):
            for span in Span:
                own = self._window(owner, span, now_s).own
                for unit, amount in used.items():
                    own[unit] += amount

    def knows(self, owner: Owned) -> bool:
        """Whether an owner has used anything, or was asked about."""
        return owner.label in self._windows

    def own(self, owner: Owned, span: Span, now_s: float) -> Mapping[Unit, float]:
        """What requests of this server have used in the period."""
        return dict(self._window(owner, span, self._now_s(now_s)).own)

    def count_others(
        self, owner: Owned, span: Span, start_s: float, least: Mapping[Unit, float], most: Mapping[Unit, float]
    ) -> None:
        """Say between which figures it is what an owner has used beside ``own`` in the period that began at
        ``start_s``; nothing for another period. The figure of before stays as far as it is between them.
        """
        if not owner.members:
            self._owners.setdefault(owner.name, (owner,))
        window = self._window(owner, span, self._now_s(start_s))
        if window.stretch.start_s == start_s:
            others = window.others
            window.others = {unit: max(0.0, min(max(others[unit], least[unit]), most[unit])) for unit in Unit}

    def states(self, owner: Owned, now_s: float) -> Iterator[BudgetState]:
        """Every bound of an owner."""
        now_s, held = self._now_s(now_s), self._held_by(owner.label)
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
        for bound in tenant.budget.limits:
            limit, more = organisation.budget.limits.get(bound), _asked(bound, tokens)
            if limit is None or bound.unit is Unit.SEAT_SECONDS:
                continue
            own = next((one for one in found if one[:3] == (Action.REFUSE, tenant.label, bound.name)), None)
            if self._has_room(tenant, organisation, bound, more, now_s):
                if own is not None and tenant.budget.borrows:
                    found = [one._replace(action=Action.LOWER) if one is own else one for one in found]
            elif own is None:
                found = [*found, _finding(Action.REFUSE, organisation, bound.name, limit, _KEPT_AGAIN_S)]
        return found

    def _has_room(self, tenant: Owned, organisation: Owned, bound: Bound, more: float, now_s: float) -> bool:
        """Whether a request takes only what is kept for its tenant, or what is kept for nobody."""
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
        """What is kept of an organisation's bound for one member, once it has taken so much more."""
        limit = member.budget.limits.get(bound)
        if limit is None:
            return 0.0
        used = self._window(member, bound.span, now_s).used(bound.unit) + self._held_by(member.label)[bound.unit]
        return max(0.0, min(limit - used - more, limit * rest_ratio))

    def _window(self, owner: Owned, span: Span, now_s: float) -> _Window:
        """The period of an owner that a time is in; a new one where the last is over, or its calendar is another."""
        label, calendar = owner.label, owner.budget.calendar
        if self._calendars.get(label, calendar) != calendar:
            self._windows.pop(label, None)
        self._calendars[label] = calendar
        windows = self._windows.setdefault(label, {})
        window = windows.get(span)
        if window is None or now_s >= window.stretch.end_s:
            window = windows[span] = _Window(calendar.stretch(span, now_s))
        return window

    def _held_by(self, label: str) -> Mapping[Unit, float]:
        return self._held.get(label) or dict.fromkeys(Unit, 0.0)

    def _change(self, hold: Hold, sign: int) -> None:
        for label in hold.owners:
            held = self._held.setdefault(label, dict.fromkeys(Unit, 0.0))
            held[Unit.REQUESTS] += sign
            held[Unit.TOKENS] += sign * hold.tokens
            if held[Unit.REQUESTS] <= 0:
                del self._held[label]

    def _now_s(self, now_s: float) -> float:
        self._newest_s = max(self._newest_s, now_s)
        return self._newest_s


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
