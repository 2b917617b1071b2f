"""One run over several instances, with a router, and instances that die on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Literal, get_args

from headway_policies import Preset
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.instances.arrival import ArrivalRouter, RoundRobin, ShortestWait, TwoChoices
from headway_simulator.instances.desks import Desks
from headway_simulator.instances.one_desk import OneDesk, fixed
from headway_simulator.instances.shell import FleetShell
from headway_simulator.run.result import Result
from headway_simulator.traffic.clients import Clients
from headway_simulator.traffic.workload import Request

RouterName = Literal["late", "round-robin", "random", "jsq"]
ROUTERS: tuple[RouterName, ...] = get_args(RouterName)


def instances(model: EngineModel, number: int, slow_factor: float = 1.0) -> list[EngineModel]:
    """So many engines, the last of which takes ``slow_factor`` times as long for everything.

    What disturbs the model strikes all of them at the same times, each with a jitter and a neighbour of its own.
    """
    slow = replace(
        model,
        base_s=model.base_s * slow_factor,
        seat_s=model.seat_s * slow_factor,
        prefill_s=model.prefill_s * slow_factor,
    )
    models = [*[model] * (number - 1), slow]
    varied = model.variation
    return models if varied is None else [replace(one, variation=varied.of_instance(k)) for k, one in enumerate(models)]


def simulate_instances(
    requests: Iterable[Request],
    preset: Preset,
    models: Sequence[EngineModel],
    seats: int,
    *,
    router: RouterName = "late",
    clients: Clients | None = None,
    seed: int = 0,
    kills: Sequence[tuple[float, int]] = (),
    progress: Callable[[int], None] | None = None,
) -> Result:
    """Serve these requests, in order of ``at_s``, by one engine for each model, each with a fixed limit of ``seats``.

    ``late``: one desk before all engines, with the seats and the bounds of the queue of all desks together; under
    another router a desk for each, and a choice on arrival. ``kills`` are the times at which engines die for good, by
    their place, the first is 0. ``clients``, ``seed`` and ``progress`` as in ``simulate``. Raises PresetError where the
    preset contradicts the seats, ValueError for kills that name no engine, one twice, or all.
    """
    places = {place for _, place in kills}
    if not len(kills) == len(places) < len(models) or not places <= set(range(len(models))):
        raise ValueError(f"kills {list(kills)}: each of the {len(models)} engines at most once, and not all of them")
    shell = _shell(preset, models, seats, router, clients or Clients(), seed)
    for at_s, place in kills:
        shell.kill_at(at_s, place)
    return shell.run(requests, (), progress)


def _shell(
    preset: Preset, models: Sequence[EngineModel], seats: int, router: RouterName, clients: Clients, seed: int
) -> FleetShell:
    if router == "late":
        one = OneDesk(preset, models, seats)
        return FleetShell(one.desk, one.fleet, one.engine_lost, clients, seed)
    makers: dict[RouterName, Callable[[], ArrivalRouter]] = {
        "round-robin": RoundRobin,
        "random": lambda: TwoChoices(seed),
        "jsq": ShortestWait,
    }
    desks = Desks(fixed(preset, seats), models, makers[router]())
    return FleetShell(desks, desks.fleet, desks.engine_lost, clients, seed)
