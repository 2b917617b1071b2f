"""A simulated engine is warmed up before the first request."""

from __future__ import annotations

import pytest

from headway_policies import bundled_presets
from headway_simulator import EngineModel, Variation
from headway_simulator.run.warm import warm_desk

BALANCED = bundled_presets()["balanced"]


@pytest.mark.parametrize(
    "model",
    [
        EngineModel(base_s=0.04, seat_s=0.004, prefill_s=0.0015),
        EngineModel(base_s=0.078, seat_s=0.00001, prefill_s=0.00003, max_num_seqs=678),
        EngineModel(base_s=0.011, seat_s=0.00001, prefill_s=0.0013, max_num_seqs=8),
        EngineModel(base_s=0.029, seat_s=0.001, prefill_s=0.0007, variation=Variation(slow=((6.0, 0.0, 40.0),))),
    ],
    ids=["slow", "large", "dear prompts", "slow from its start"],
)
def test_what_a_request_alone_takes_is_known_from_the_start(model: EngineModel) -> None:
    """Of the engine undisturbed, within a twentieth; no request counts as served."""
    desk = warm_desk(BALANCED, model)
    alone = desk.engine_fit.unloaded
    assert alone is not None
    assert alone.token_s == pytest.approx(model.base_s + model.seat_s, rel=0.05)
    assert alone.first_token_s(64) == pytest.approx(model.base_s + model.seat_s + 64 * model.prefill_s, rel=0.1)
    assert desk.ledger.classes["realtime"].arrived == 0


def test_an_engine_whose_cache_holds_no_such_request_is_not_known() -> None:
    """The engine starts without a measurement, as a server does whose warm-up is refused."""
    desk = warm_desk(BALANCED, EngineModel(kv_tokens=32))
    assert desk.engine_fit.unloaded is None
