"""The same arrivals in vLLM's own queue."""

from __future__ import annotations

import pytest

from headway.api import Status
from headway_simulator import EngineModel, Request
from headway_tools.demo.overload.without import EngineSeen, at_speed_of, engine_seen, without_headway
from headway_tools.load.histogram import Histogram
from headway_tools.load.scrape import Counts

COSTS = {"base_s": 0.03, "sequence_s": 0.001, "prompt_token_s": 0.0005, "error_ratio": 0.05}


def status(**engine: object) -> Status:
    """A status with two classes, one of them with objectives."""
    one = {"priority": 1, "queued": 0, "oldest_wait_s": 0.0, "in_flight": 0, "arrived": 0, "outcomes": {}}
    return Status.model_validate(
        {
            "version": "0",
            "model": "m",
            "ready": True,
            "reasons": [],
            "state": "open",
            "uptime_s": 1.0,
            "preset": {"name": "balanced", "revision": 1},
            "limit": {"live": 8, "ceiling": 64},
            "seats_taken": 0,
            "queued": 0,
            "in_flight": 0,
            "classes": [
                {"name": "realtime", **one, "objectives": {"ttft_s": 0.4}},
                {"name": "batch", **one},
            ],
            "engine": engine,
        }
    )


def test_the_model_is_what_the_server_has_fitted() -> None:
    """Its step time, its bounds, and as many sequences as the engine runs; not as many as the limit allows."""
    seen = engine_seen(status(step_time=COSTS, kv_cache_tokens=4096, step_tokens=512))
    assert seen.model == EngineModel(0.03, 0.001, 0.0005, step_tokens=512, max_num_seqs=64, kv_tokens=4096)
    assert seen.objectives_s == {"realtime": 0.4, "batch": None}


@pytest.mark.parametrize("engine", [{}, {"kv_cache_tokens": 4096}])
def test_an_engine_that_is_not_measured_is_not_guessed(engine: dict[str, object]) -> None:
    """No model, and so no comparison."""
    seen = engine_seen(status(**engine))
    assert seen.model is None
    assert without_headway([Request(0.0, "realtime", 8, 4, 4)], ("realtime",), 9.0, seen) == []


def test_the_model_is_as_fast_as_the_engine_was_in_the_overload() -> None:
    """Ten sequences and twenty prompt tokens a step are fitted at 50 ms; vLLM's metrics say 100: all costs double."""
    model = EngineModel(0.03, 0.001, 0.0005)
    gaps = Histogram({"+Inf": 900})
    added = Counts({}, batch_sum=1000, batch_steps=100, inter_tokens=gaps, inter_token_sum_s=90.0)
    assert at_speed_of(model, added, 2000) == EngineModel(0.06, 0.002, 0.001)


@pytest.mark.parametrize("added", [Counts({}), Counts({}, batch_sum=1000, batch_steps=100)])
def test_without_metrics_of_vllm_the_model_is_the_fitted_one(added: Counts) -> None:
    """Its speed is not guessed."""
    model = EngineModel(0.03, 0.001, 0.0005)
    assert at_speed_of(model, added, 2000) == model


def test_in_an_overload_the_urgent_class_waits_behind_all_others() -> None:
    """First come, first served: every class is late alike, though each request is served in the end."""
    engine = EngineSeen(EngineModel(0.1, 0.0, 0.0, max_num_seqs=1), {"realtime": 1.0, "batch": 1.0})
    requests = [Request(0.2 * place, ("realtime", "batch")[place % 2], 8, 10, 10) for place in range(200)]
    realtime, batch = without_headway(requests, ("realtime", "batch"), 40.0, engine)
    assert realtime.served == batch.served == 100
    assert realtime.meanwhile < 25
    assert realtime.in_time < 5
    assert abs(realtime.in_time - batch.in_time) <= 1
