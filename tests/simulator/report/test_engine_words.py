"""How a report describes the engine: every digit that was given, and nothing that was not."""

from __future__ import annotations

import json

from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.engine_model.variation import Variation
from headway_simulator.report.engine_words import engine_table, engine_words


def test_a_steady_engine_is_its_constants() -> None:
    """One line, and all fields by name."""
    model = EngineModel(base_s=0.0291234, kv_tokens=6400)
    (line,) = engine_words(model)
    assert line.startswith("engine: 29.1234 ms a step + 1.06 ms a sequence + 0.7 ms a prompt token; 6400 tokens")
    table = engine_table(model)
    assert (table["base_s"], table["kv_tokens"], table["variation"]) == (0.0291234, 6400, None)


def test_what_contexts_cost_is_said_where_they_do() -> None:
    """At the end of the line."""
    (line,) = engine_words(EngineModel(context_s=0.0125))
    assert line.endswith("tokens of KV space, 12.5 ms a step more where it is full")


def test_a_disturbed_engine_has_a_line_more() -> None:
    """Each disturbance that there is, to the last digit; the table has no number without a name."""
    variation = Variation(pauses=((1.25, 30.0),), jitter_ratio=0.123456, jitter_hold_s=2.0, seed=9)
    model = EngineModel(variation=variation)
    assert engine_words(model)[1:] == ["  disturbed: a pause of 1.25 s at 30 s; a jitter of 12.3456 %, drawn every 2 s"]
    assert json.loads(json.dumps(engine_table(model)["variation"])) == {
        "slow": [], "pauses": [{"length_s": 1.25, "at_s": 30.0}], "neighbour": None, "drift": None,
        "jitter_ratio": 0.123456, "jitter_hold_s": 2.0, "seed": 9,
    }  # fmt: skip
