"""The shell over a fleet: the same events and clients, and instances that die on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from random import Random

from headway_policies import Desk, Effect, Preset
from headway_simulator.engine_model.engine import Steps
from headway_simulator.instances.desks import Desks
from headway_simulator.instances.fleet import Fleet
from headway_simulator.run.result import Result
from headway_simulator.run.shell import Shell
from headway_simulator.traffic.clients import Clients
from headway_simulator.traffic.workload import Request

#: What follows at the desk, or the desks, when the engine at a place has died.
Loss = Callable[[int, float], list[Effect]]


class FleetShell(Shell):
    """One run over a fleet. After a death, what had no output is sent to another engine under one desk, and is lost
    with the engine where it has a desk of its own.
    """

    def __init__(self, front: Desk | Desks, fleet: Fleet, loss: Loss, clients: Clients, seed: int) -> None:
        super().__init__(front, fleet, clients, Random(seed), one_by_one=False)  # noqa: S311 - to be repeatable
        self._result.engines = len(fleet)
        self._fleet = fleet
        self._loss = loss
        self._all_desks = front.desks if isinstance(front, Desks) else [front]
        self._resend = isinstance(front, Desk)

    def kill_at(self, at_s: float, place: int) -> None:
        """Let the engine at this place die at this time."""
        self._at(at_s, partial(self._kill, place))

    def run(
        self,
        requests: Iterable[Request],
        switches: Iterable[tuple[float, Preset]],
        progress: Callable[[int], None] | None,
    ) -> Result:
        """Serve until no request is left."""
        result = super().run(requests, switches, progress)
        result.ledger = self._front.ledger
        return result

    def _kill(self, place: int) -> None:
        self._fleet.kill(place, self._now_s, resend=self._resend)
        self._carry_out(self._loss(place, self._now_s))

    def _running(self, steps: Steps) -> int:
        return self._fleet.running_count

    def _desks(self) -> Iterable[Desk]:
        return self._all_desks
