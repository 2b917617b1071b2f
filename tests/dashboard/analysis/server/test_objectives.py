"""The objectives of the classes, read from the settings of a preset as the server shows them."""

from __future__ import annotations

from math import inf, isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.api import schema
from headway.api.lenient import read_leniently
from headway.operator.status.class_status import objectives_status
from headway_dashboard.analysis.server.objectives import (
    ClassObjectives,
    merged_objectives,
    objective_lines,
    objectives_of,
)
from headway_policies import Preset, bundled_presets
from headway_policies.limits import ObjectivesNow, Unloaded

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


ALONE = Unloaded(0.03, 0.0007)


@pytest.mark.parametrize("name", list(bundled_presets()))
def test_objectives_are_read_as_the_server_writes_them(name: str) -> None:
    """Each class its own, the time between tokens in seconds; one that states none has no bound."""
    preset = bundled_presets()[name]
    answers = {one: answer(preset, one) for one in preset.classes}
    found = objectives_of(preset.settings(), answers)
    assert found.keys() == preset.classes.keys()
    for class_name, stated in preset.classes.items():
        now, one = ObjectivesNow.of(stated, ALONE, 64), found[class_name]
        assert one.ttft_slo_s == pytest.approx(now.found.ttft_s or inf, abs=1e-3)
        assert one.first_token_timeout_s == (stated.first_token_timeout_s or inf)
        assert one.inter_token_slo_s == pytest.approx(now.found.inter_token_s or inf, abs=1e-5)
        assert one.words == now.words
        assert one.multiple == (stated.ttft_slo_s.split()[0] if isinstance(stated.ttft_slo_s, str) else "")
    assert found["batch"].inter_token_slo_s == inf
    assert objectives_of(preset.settings() | {"classes.new.priority": 5})["new"] == ClassObjectives(inf, inf, inf)
    assert objectives_of({}) == {}


def answer(preset: Preset, class_name: str, alone: Unloaded = ALONE) -> schema.ClassObjectives:
    """What a server with this engine says of a class."""
    now = ObjectivesNow.of(preset.classes[class_name], alone, 64)
    return objectives_status(class_name, now, preset.name)


def test_a_multiple_of_an_engine_that_is_not_known_is_not_known() -> None:
    """From a server that does not tell its objectives, or has not measured its engine: no number stands there."""
    settings = bundled_presets()["balanced"].settings()
    found = objectives_of(settings)
    assert (found["realtime"].ttft_slo_s, found["realtime"].inter_token_slo_s) == (None, None)
    assert found["batch"].ttft_slo_s == 60
    assert objectives_of(settings, {"realtime": schema.ClassObjectives()})["realtime"].ttft_slo_s is None


def test_the_objectives_in_force_are_one_line_and_what_is_missed_alone_others() -> None:
    """A slow engine misses some even for a request alone: that is said, with what it takes."""
    preset = bundled_presets()["balanced"]
    quick = objectives_of(preset.settings(), {"realtime": answer(preset, "realtime")})
    (line,) = objective_lines(quick, ("realtime", "gone"))
    assert line == (
        "Objectives: realtime: first token within 449 ms (6x of this engine's 74.8 ms for 64 tokens), "
        "75 ms a token (2.5x)."
    )
    slow = objectives_of(preset.settings(), {"realtime": answer(preset, "realtime", Unloaded(0.8, 0.0))})
    assert objective_lines(slow, ("realtime",))[1:] == [
        "balanced asks 500 ms a token of realtime; this engine takes 800 ms for a request alone: "
        "it refuses nothing for that."
    ]


def test_several_servers_have_the_longest_of_a_multiple() -> None:
    """Each engine has a number of its own; where the presets state different ones, nothing is said of all."""
    preset, other = bundled_presets()["balanced"], bundled_presets()["latency"]
    own = [
        objectives_of(preset.settings(), {name: answer(preset, name, alone) for name in preset.classes})
        for alone in (ALONE, Unloaded(0.06, 0.0014))
    ]
    found = merged_objectives(own)
    assert found["realtime"].ttft_slo_s == own[1]["realtime"].ttft_slo_s
    assert found["realtime"].inter_token_slo_s == own[1]["realtime"].inter_token_slo_s
    assert found["batch"] == own[0]["batch"]
    differing = objectives_of(other.settings(), {name: answer(other, name) for name in other.classes})
    assert merged_objectives([own[0], differing]) == {}
    assert merged_objectives([]) == {}
