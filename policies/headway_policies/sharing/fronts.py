"""Several fronts before the same instances: how many seats of each instance one of them may fill.

Every front serves, and its part of the seats is a lease that the fronts agree on among themselves, without a leader (as
llm-d's picker has) and without a master (as Doorman has). An instance with Headway keeps its own limit in any case;
plain vLLM has no gate below its ``--max-num-seqs``, and what it says of the other front is up to a second old.

Every round, twice a second, a front

    aim       works out its target from what all fronts want, lowers its grant to that, and claims the target
    hear      asks all others for what they claim
    settle    is granted as much of its claim as no other front claims, and keeps what it had been granted

What a front says that it claims is never less than what it uses. Its grant ends ``LEASE_S`` after the round began, and
another front counts as gone when nothing listens at its address, or ``GONE_S`` after it was last heard; what it claimed
is free once the instance has said since then what runs there, and what the gone one still runs counts as running.

Theorem: the seats in use at an instance by fronts that hear each other are never more than it has. Proof: call p the
moment from which on a front has claimed at least what it uses now; all that its grant rests on was said after its p. Of
all fronts take the one with the latest p: all others claimed what they use now before it heard them, so it was granted
at most the rest. Seats that a front uses beyond a target that fell are claimed until it has ended.

A front without listeners yet might be granted seats in use: until it has heard itself at its own address it has no
more than the even share, and nothing that another front claims. So two fronts that start together share at once.

Targets are max-min fair by the seats that the requests of each front would fill, as shares of the limit; what none
wants is divided evenly, and ``SPARE`` is the least: an idle front has a seat of 32 for its first request. Each instance
is divided at the same places of a line from 0 to 1, with a phase of its own, else all odd seats would be one front's.
The parts are whole numbers that add up to its seats.

Weak spots: fronts that reach the instances but not each other take each other for gone; then what the instances say is
running is the only bound, as between fronts that do not know each other. The order of classes is that of each front. A
front has one seat of the limit in any case, so a limit of fewer seats than fronts is exceeded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import floor, inf
from zlib import crc32

from headway_policies.sharing.recent_demand import RecentDemand

LEASE_S = 2.0
GONE_S = 4.0
SPARE = 1 / 32
#: The demand of a front falls when it was lower for so long.
_CALM_S = 5.0
_PHASES = 2**32


@dataclass(frozen=True, slots=True)
class FrontClaims:
    """The claims of a front: its name, the seats that its requests would fill, the limit of all fronts together as it
    knows it, and the seats that it claims of each instance.
    """

    front: str
    wanted: int = 0
    limit: int = 1
    seats: Mapping[str, int] = field(default_factory=dict)


def divide(wanted: Mapping[str, float]) -> dict[str, float]:
    """The share of each front, max-min fair by demand; the unwanted rest is divided evenly. They add up to 1."""
    shares: dict[str, float] = {}
    left = 1.0
    for place, name in enumerate(sorted(wanted, key=lambda name: (wanted[name], name))):
        shares[name] = min(max(wanted[name], SPARE), left / (len(wanted) - place))
        left -= shares[name]
    return {name: share + left / len(wanted) for name, share in shares.items()}


class FrontShare:
    """The part of one front. ``places`` are the addresses of all fronts, this one's too; ``now_s`` never runs back."""

    def __init__(self, front: str, places: Collection[str]) -> None:
        self.front = front
        self.granted: dict[str, int] = {}
        self.hears_itself = False
        self._places = places
        self._heard: dict[str, tuple[FrontClaims, float]] = {}
        self._unknown: set[str] = set(places)  # not heard yet, and not gone
        self._ended: list[tuple[FrontClaims, float]] = []  # what those claimed that are gone, and since when
        self._began_s: float | None = None
        self._targets: dict[str, int] = {}
        self._demand = RecentDemand()
        self._wanted, self._limit = 0, 1
        self._rounds = 0  # that began after it had heard itself
        self._settled_s = -inf

    @property
    def others(self) -> int:
        """The number of other fronts that are there."""
        return len(self._heard)

    @property
    def limit(self) -> int:
        """The limit of all fronts together: the largest that one knows. An adaptive one grows where it is needed."""
        return max(self._limit, *(said.limit for said, _ in self._heard.values()), 1)

    @property
    def until_s(self) -> float:
        """The end of the grant, unless another round is settled."""
        return self._settled_s + LEASE_S

    def claims(self, used: Mapping[str, int]) -> FrontClaims:
        """The claims to tell the other fronts, while this one uses these seats."""
        seats = {name: max(self._targets.get(name, 0), used.get(name, 0)) for name in {**self._targets, **used}}
        return FrontClaims(self.front, self._wanted, self._limit, seats)

    def aim(self, seats: Mapping[str, int], wanted: int, limit: int, now_s: float) -> None:
        """A round begins: the instances have these seats, and its requests would fill so many of its limit."""
        self._forget(now_s)
        self._wanted, self._limit = int(self._demand.update(wanted, now_s, _CALM_S)), limit
        wants = {said.front: said.wanted / self.limit for said, _ in self._heard.values()}
        if self.hears_itself:
            wants[self.front] = self._wanted / self.limit
        else:
            unheard = len(self._places) - 1 - len(wants)
            wants |= dict.fromkeys((self.front, *map(str, range(unheard))), 1.0)
        low, high = _part(self.front, divide(wants))
        self._targets = {name: _seats(number, low, high, name) for name, number in seats.items()}
        self.granted = {name: min(self.granted.get(name, 0), target) for name, target in self._targets.items()}
        self._rounds += self.hears_itself

    def hear(self, place: str, said: FrontClaims, now_s: float) -> None:
        """The front at that place has answered."""
        if place in self._heard and self._heard[place][0].front != said.front:
            self.gone(place, now_s)
        self._unknown.discard(place)
        if said.front == self.front:
            self.hears_itself = True
        else:
            self._heard[place] = said, now_s

    def gone(self, place: str, now_s: float) -> None:
        """Forget the front at a place where nothing listens."""
        self._unknown.discard(place)
        if place in self._heard:
            self._ended.append((self._heard.pop(place)[0], now_s))

    def settle(self, seats: Mapping[str, int], read_s: Mapping[str, float], began_s: float) -> None:
        """Grant what is free, once all places were asked since the round began. While a front is silent nothing more is
        granted: what it said before may be another number now. ``read_s`` is when each instance was asked what runs
        there: what a front claimed that is gone is free once that was asked since, for it sends nothing more, and the
        answer counts what it had sent.
        """
        all_heard = not self._unknown and all(heard_s >= began_s for _, heard_s in self._heard.values())
        for name, target in self._targets.items():
            claimed = sum(said.seats.get(name, 0) for said, _ in self._heard.values())
            unread = [said for said, gone_s in self._ended if read_s.get(name, -inf) < gone_s]
            claimed += sum(said.seats.get(name, 0) for said in unread)
            free = max(0, seats[name] - claimed) if all_heard else 0
            kept = self.granted[name] if self._rounds > 1 else 0
            self.granted[name] = max(kept, min(target, free))
        self._settled_s = began_s

    def _forget(self, now_s: float) -> None:
        """Forget the fronts that have been silent for too long, and the grants whose lease has ended."""
        if self._began_s is None:
            self._began_s = now_s
        if now_s >= self._began_s + GONE_S:
            self._unknown.clear()
        for place in [place for place, (_, heard_s) in self._heard.items() if now_s >= heard_s + GONE_S]:
            self.gone(place, now_s)
        self._ended = [(said, gone_s) for said, gone_s in self._ended if now_s < gone_s + GONE_S]
        if now_s >= self.until_s:
            self.granted = {}


def _part(front: str, shares: Mapping[str, float]) -> tuple[float, float]:
    """The beginning and end of a front's part, on a line from 0 to 1; the same for all that know the same shares."""
    low = high = 0.0
    for name in sorted(shares):
        low, high = high, high + shares[name]
        if name == front:
            break
    return low, 1.0 if front == max(shares) else high


def _seats(number: int, low: float, high: float, instance: str) -> int:
    phase = crc32(instance.encode()) / _PHASES
    return floor(number * high + phase) - floor(number * low + phase)
