"""A server that shares a machine, as an arbiter sees it: requests, a limit, orders that expire; on a given clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headway.api import UnreachableError
from headway_policies.sharing import ModelLoad
from headway_tools.sharing.reading import ServerReading
from headway_tools.sharing.server import EXPIRES_S


@dataclass
class SharedStandIn:
    """Requests take a seat as long as the limit allows it; a lowered limit ends none of them."""

    url: str
    own_limit: int = 8
    ceiling: int = 64
    weight: float = 1.0
    urgent: bool = False
    may_pause: bool = False
    queued: int = 0
    taken: int = 0
    late_ratio: float = 0.0
    answers: bool = True
    loses_answers: bool = False
    left_alone: str = ""
    paused: bool = False
    pauses: int = 0
    pause_ends_s: float = 0.0
    ordered: int | None = None
    ends_s: float = 0.0
    now_s: float = 0.0
    orders: list[int] = field(default_factory=list)
    after_order: Callable[[], None] = lambda: None

    @property
    def limit(self) -> int:
        return self.own_limit if self.ordered is None else self.ordered

    def pass_time(self, now_s: float, arrived: int = 0, ended: int = 0) -> None:
        """Requests end and arrive, and an order or a pause that was not renewed expires."""
        self.now_s = now_s
        if self.ordered is not None and now_s >= self.ends_s:
            self.ordered = None
        self.paused = self.paused and now_s < self.pause_ends_s
        self.taken -= min(ended, self.taken)
        self.queued += arrived
        self._dispatch()

    def look(self) -> ServerReading:
        self._reach()
        load = ModelLoad(
            self.taken + self.queued, self.ceiling, self.weight, self.late_ratio, self.urgent, self.may_pause
        )
        return ServerReading(
            f"model of {self.url}", load, self.limit, self.taken, self.ordered is not None, self.paused,
            not self.paused, self.pause_ends_s - self.now_s, self.left_alone,
        )  # fmt: skip

    def set_limit(self, seats: int) -> None:
        self._reach()
        self.ordered, self.ends_s = seats, self.now_s + EXPIRES_S
        self.orders.append(seats)
        self._dispatch()
        self.after_order()
        if self.loses_answers:
            raise UnreachableError("The connection was lost.", self.url)

    def pause(self) -> None:
        self._reach()
        self.paused, self.pause_ends_s = True, self.now_s + EXPIRES_S
        self.pauses += 1

    def resume(self) -> None:
        self._reach()
        self.paused = False
        self._dispatch()

    def give_back(self) -> None:
        self._reach()
        self.paused, self.ordered = False, None

    def _dispatch(self) -> None:
        begun = 0 if self.paused else max(0, min(self.queued, self.limit - self.taken))
        self.queued -= begun
        self.taken += begun

    def _reach(self) -> None:
        if not self.answers:
            raise UnreachableError("The server is not reachable.", self.url)
