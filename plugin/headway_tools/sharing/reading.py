"""The state of one server at one moment, as an arbiter needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, inf

from headway.api import Status
from headway_policies.sharing import ModelLoad

#: The reason of every command; a pause with this one is the arbiter's.
REASON = "headway share"
_ROUNDING_SEATS = 0.01


@dataclass(frozen=True, slots=True)
class ServerReading:
    """The state of a server: its model and load, the limit in force, and the seats taken.

    ``ordered`` says whether that limit is the arbiter's command, ``paused`` whether its pause is in force, for another
    ``pause_left_s``, ``can_pause`` whether a pause would be taken. A server with a ``left_alone`` belongs to another
    client: it gets no command but the end of its pause, and that is the reason.
    """

    model: str
    load: ModelLoad
    limit: int
    taken: int
    ordered: bool = False
    paused: bool = False
    can_pause: bool = True
    pause_left_s: float = inf
    left_alone: str = ""

    @property
    def committed(self) -> int:
        """The seats that requests hold or may take."""
        return max(self.limit, self.taken)


def demand_seats(status: Status) -> int:
    """The seats that its requests would fill; 0 while another client has stopped its dispatch."""
    if status.stopped is not None and status.stopped.reason != REASON:
        return 0
    return max(status.seats_taken, ceil(status.scale_ratio * status.limit.live - _ROUNDING_SEATS))


def late_ratio(status: Status, settings: Mapping[str, object]) -> float:
    """The longest wait as a share of the objective of its class for the first token; 0 where no class has one.

    An older server does not tell its objectives: then they are those of its ``settings`` that are numbers.
    """
    found = 0.0
    for state in status.classes:
        stated = settings.get(f"classes.{state.name}.ttft_slo_s")
        objective_s = stated if state.objectives is None else state.objectives.ttft_s
        if isinstance(objective_s, int | float) and objective_s > 0:
            found = max(found, state.oldest_wait_s / objective_s)
    return found
