"""A server that shares the machine: its status, and commands that it ends by itself when the arbiter is gone."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from headway.api import AdminClient, Status
from headway_policies.sharing import ModelLoad
from headway_tools.sharing.reading import REASON, ServerReading, demand_seats, late_ratio

#: How long a command holds without a renewal.
EXPIRES_S = 30.0


class SharedServer:
    """The server behind a client. Every method raises AdminError; a command holds for ``EXPIRES_S``.

    Use it from one thread at a time.
    """

    def __init__(
        self,
        client: AdminClient,
        weight: float = 1.0,
        *,
        urgent: bool = False,
        may_pause: bool = False,
        actor: str | None = None,
    ) -> None:
        self._client = client
        self._weight, self._urgent, self._may_pause = weight, urgent, may_pause
        self._actor = actor
        self._revision = 0
        self._settings: tuple[int, Mapping[str, object]] = (-1, {})
        self._stopped_it = False
        self._asked: frozenset[int] = frozenset()  # two numbers where the answer to the last command was not read

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._client.url

    def look(self) -> ServerReading:
        """Read its status, and its preset where that has changed."""
        status = self._client.status()
        self._revision = status.preset.revision
        if self._settings[0] != self._revision:
            self._settings = self._revision, self._client.preset().settings
        ours = self._ours(status)
        if ours and status.limit.ordered is not None:
            self._asked = frozenset({status.limit.ordered.seats})
        stopped, left_alone = status.stopped, _left_alone(status, ours)
        is_shares = stopped is not None and stopped.state == "paused" and stopped.reason == REASON
        load = ModelLoad(
            demand_seats(status),
            max(1, status.limit.ceiling),
            self._weight,
            late_ratio(status, self._settings[1]),
            self._urgent,
            self._may_pause,
            lacks_memory=status.memory.cap_ratio < 1,  # by the rules of its own preset: KV cache, GPU memory
            host_usage_ratio=status.memory.host_usage_ratio,
        )
        return ServerReading(
            status.model,
            load,
            status.limit.ordered.seats if ours and status.limit.ordered is not None else status.limit.live,
            status.seats_taken,
            ordered=ours,
            paused=is_shares and (self._stopped_it or not left_alone),
            can_pause=stopped is None and status.state == "open",
            pause_left_s=inf if stopped is None or stopped.left_s is None else stopped.left_s,
            left_alone=left_alone,
        )

    def set_limit(self, seats: int) -> None:
        """Limit the server to so many seats for ``EXPIRES_S``, at the revision that was last read."""
        self._asked |= {seats}  # before the answer, which may never come
        done = self._client.order_limit(
            seats, revision=self._revision, expires_s=EXPIRES_S, reason=REASON, actor=self._actor
        )
        self._revision, self._asked = done.revision, frozenset({seats})

    def pause(self) -> None:
        """Suspend its dispatch for ``EXPIRES_S``, or for as long again."""
        self._stopped_it = True  # before the answer, as for a command
        self._client.pause(expires_s=EXPIRES_S, reason=REASON, actor=self._actor)

    def resume(self) -> None:
        """End the pause."""
        self._client.resume(reason=REASON, actor=self._actor)
        self._stopped_it = False

    def give_back(self) -> None:
        """End the pause and the arbiter's limit, where they are the arbiter's."""
        now = self.look()
        if now.paused:
            self.resume()
        if now.ordered:
            self._client.order_limit(None, revision=self._revision, reason=REASON, actor=self._actor)
        self._asked = frozenset()

    def _ours(self, status: Status) -> bool:
        """Whether the limit in force is the arbiter's command."""
        in_force = status.limit.ordered
        if in_force is None or in_force.left_s is None:
            return False
        return in_force.reason == REASON and in_force.seats in self._asked


def _left_alone(status: Status, ours: bool) -> str:
    """The reason why a server gets no command; empty where it does."""
    in_force = status.limit.ordered
    if status.preset.trial is not None:
        return f"preset {status.preset.name} is on trial there: it is left alone until that ends"
    if in_force is not None and not ours:
        return f"another client has set {in_force.seats} seats there: it is left alone until that ends"
    return ""
