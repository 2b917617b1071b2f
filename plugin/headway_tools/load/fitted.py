"""The model of an engine that its server has fitted from its own steps, as the status of the server shows it."""

from __future__ import annotations

from headway.api import Status
from headway_simulator.engine_model.engine import EngineModel


def fitted_model(status: Status) -> EngineModel | None:
    """The model, with its defaults where the server does not know a bound; None before the server has a fit."""
    engine, costs = status.engine, status.engine.step_time
    if costs is None:
        return None
    usual = EngineModel()
    return EngineModel(
        costs.base_s,
        costs.sequence_s,
        costs.prompt_token_s,
        step_tokens=engine.step_tokens or usual.step_tokens,
        max_num_seqs=status.limit.ceiling or usual.max_num_seqs,
        kv_tokens=engine.kv_cache_tokens or usual.kv_tokens,
    )
