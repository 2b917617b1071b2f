"""The same arrivals without Headway: vLLM's own queue, first come first served, simulated with this engine's step time.

The step time is what the server has fitted, made slower or faster by one factor for all of its costs: so that the mean
time between tokens in the overload is what vLLM's own metrics say of it. The clients of the simulation wait as long as
it takes, and nothing but the engine takes time: HTTP and tokenising are left out, to the advantage of vLLM alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from headway.api import Status
from headway_simulator import EngineModel, Request, simulate
from headway_tools.demo.overload.shares import ClassShare, by_simulation
from headway_tools.load.fitted import fitted_model
from headway_tools.load.scrape import Counts


@dataclass(frozen=True, slots=True)
class EngineSeen:
    """The server's view of its engine: the model that it has fitted (None: not measured yet), and the objective for a
    first token of each class on that engine, in seconds.
    """

    model: EngineModel | None
    objectives_s: dict[str, float | None]


def engine_seen(status: Status) -> EngineSeen:
    """The engine and the objectives in a status."""
    objectives = {state.name: None if state.objectives is None else state.objectives.ttft_s for state in status.classes}
    return EngineSeen(fitted_model(status), objectives)


def at_speed_of(model: EngineModel, added: Counts, prompt_tokens: float) -> EngineModel:
    """The model at the speed of the engine while it served ``added``, with so many tokens in all its prompts.

    Unchanged where vLLM's metrics do not tell the time between tokens.
    """
    seen_s, running = added.mean_inter_token_s, added.mean_batch
    if seen_s is None or running is None:
        return model
    factor = seen_s / (model.step_s(0) + model.seat_s * running + model.prefill_s * prompt_tokens / added.batch_steps)
    return replace(
        model, base_s=factor * model.base_s, seat_s=factor * model.seat_s, prefill_s=factor * model.prefill_s
    )


def without_headway(
    requests: Iterable[Request], names: Sequence[str], length_s: float, engine: EngineSeen
) -> list[ClassShare]:
    """The shares of the classes in vLLM's own queue; empty where the engine is not measured yet."""
    if engine.model is None:
        return []
    visits = simulate(requests, None, engine.model).visits
    return by_simulation(visits, names, length_s, engine.objectives_s)
