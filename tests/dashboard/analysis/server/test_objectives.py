"""The objectives of the classes, read from the settings of a preset as the server shows them."""

from __future__ import annotations

from math import inf, isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.api import schema
from headway.api.lenient import read_leniently
from headway_dashboard.analysis.server.objectives import ClassObjectives, objectives_of
from headway_policies import bundled_presets

anything = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers())
terms = ("first_token_timeout_s", "ttft_slo_s", "inter_token_slo_ms", "priority")
settings = st.dictionaries(
    st.sampled_from([*(f"classes.batch.{term}" for term in terms), "classes", "classes.a.b.c", ""]), anything
)


@given(settings)
def test_no_preset_breaks_a_page(reported: dict[str, object]) -> None:
    """Only a bound that is a positive number is one; another value is not known."""
    found = objectives_of(read_leniently(schema.CurrentPreset, {"settings": reported}).settings)
    assert found.keys() <= {"batch"}
    for one in found.values():
        bounds = (one.ttft_slo_s, one.first_token_timeout_s, one.inter_token_slo_s)
        assert all(bound is None or (bound > 0 and not isnan(bound)) for bound in bounds)


@pytest.mark.parametrize("name", ["interactive", "balanced", "offline"])
def test_objectives_are_read_as_the_server_writes_them(name: str) -> None:
    """Each class its own, the time between tokens in seconds; one that states none has no bound."""
    preset = bundled_presets()[name]
    found = objectives_of(preset.settings())
    assert found.keys() == preset.classes.keys()
    for class_name, stated in preset.classes.items():
        between_ms = stated.inter_token_slo_ms
        assert found[class_name] == ClassObjectives(
            ttft_slo_s=stated.ttft_slo_s or inf,
            first_token_timeout_s=stated.first_token_timeout_s or inf,
            inter_token_slo_s=inf if between_ms is None else pytest.approx(between_ms / 1000),
        )
    assert found["batch"].inter_token_slo_s == inf
    assert objectives_of(preset.settings() | {"classes.new.priority": 5})["new"] == ClassObjectives(inf, inf, inf)
    assert objectives_of({}) == {}
