"""The server's status as the dashboard reads it: complete, in part, and with bounded requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from engines import installed
from hypothesis import given
from hypothesis import strategies as st
from stub_server import OPERATOR_TOKEN, VIEWER_TOKEN, StubServer
from virtual_time import on_virtual_time

import headway
from headway.api import schema
from headway.api.lenient import read_leniently
from headway.audit import Caller
from headway.engine.fake import FakeEngine
from headway.supervision.supervisor import Supervisor
from headway.supervision.warmup_report import WarmupReport
from headway_dashboard.analysis.server.status import Status, status_of
from headway_dashboard.sources import ServerStatusSource
from headway_policies import Load, bundled_presets

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
bodies = st.dictionaries(
    st.sampled_from(["engine", "warmup", "memory", "limit", "reasons", "moves", "upstream", "rung", "in_force"]),
    anything
    | st.dictionaries(st.sampled_from(["stages", "restart_step", "restart_attempts", "deaths", "reason"]), anything),
)


def whole(body: dict[str, Any]) -> schema.Status:
    """The answer of ``GET /headway/v1/status``, as the dashboard reads it."""
    return read_leniently(schema.Status, body)


@given(bodies)
def test_no_answer_breaks_a_page(body: dict[str, Any]) -> None:
    """A server of another version may send anything; unknown parts are ignored."""
    preset = read_leniently(schema.CurrentPreset, body)
    assert status_of(whole(body), read_leniently(schema.FallbackState, body), preset.settings).known


def test_the_preset_is_read_as_the_server_writes_it() -> None:
    """Its strategy, and whether its limit follows the engine: not in shadow mode."""
    adaptive, fixed = bundled_presets()["interactive"].settings(), bundled_presets()["offline"].settings()
    reported = [
        status_of(whole({}), settings=one) for one in (adaptive, fixed, adaptive | {"limit.shadow": True}, None)
    ]
    assert [one.strategy for one in reported] == ["continuous", "static", "continuous", ""]
    assert [one.adaptive for one in reported] == [True, False, False, None]
    assert [sorted(one.objectives) for one in reported] == [["batch", "normal", "realtime"]] * 3 + [[]]


@on_virtual_time
async def test_the_warm_up_is_read_as_the_server_writes_it() -> None:
    """Against the server's own report, not a copy of it."""
    report = WarmupReport("failed", "batch: boom", 8, 2, {"single": [0.4], "batch": [2.0, 1.5]}, ["logprobs"])
    control, parts = installed(FakeEngine(), bundled_presets()["balanced"])
    parts.warmup.report = report
    warmup = status_of(control.status()).warmup
    assert (warmup.state, warmup.reason, warmup.attempt, warmup.batch_size) == ("failed", "batch: boom", 2, 8)
    assert warmup.stages == {"single": [0.4], "batch": [2.0, 1.5]}
    assert warmup.refused == ["logprobs"]


@on_virtual_time
async def test_the_memory_is_read_as_the_server_writes_it() -> None:
    """The longest pause and whether a recycle is under way."""
    memory = headway.wrap(FakeEngine()).headway.status().memory.model_dump()
    reported = status_of(whole({"memory": {**memory, "recycling": True}}))
    assert reported.recycling
    assert reported.longest_gc_pause_s == 0.0


@on_virtual_time
async def test_the_whole_status_is_read_as_the_server_writes_it() -> None:
    """Against the server's own control room."""
    preset = bundled_presets()["balanced"]
    control, parts = installed(FakeEngine(), preset, supervise=lambda one: Supervisor(one.gateway))
    control.order_fallback("pause", caller=Caller(address="-"))
    parts.activity.step(Load(1, 0, 0.1, kv_capacity_tokens=20_480), 1, [])
    reported = status_of(control.status(), control.fallback_controller.status())
    assert reported.seat_bounds.kv_seats == 19
    assert (reported.known, reported.engine.state, reported.limit_reason) == (True, "up", "start")
    assert (reported.admission, reported.dispatching) == ("open", True)
    assert (reported.ladder.rung, reported.ladder.ordered, reported.ladder.trigger) == ("pause", "pause", "operator")
    assert (reported.ladder.moves[0].before, reported.ladder.moves[0].after) == ("normal", "pause")


@pytest.fixture
def telling(stub: StubServer) -> Callable[..., ServerStatusSource]:
    """A source of this stub, polled by hand."""
    return lambda token, **more: ServerStatusSource(stub.url, token, **more)


def test_with_a_token_the_whole_status_is_read(stub: StubServer, telling: Callable[..., ServerStatusSource]) -> None:
    """Engine, warm-up and ladder in one value."""
    stub.world.state, stub.world.restart_step, stub.world.restart_attempts = "restarting", "warming it up", 2
    source = telling(OPERATOR_TOKEN)
    reported = source.read()
    source.close()
    assert (reported.engine.restart_step, reported.engine.restart_attempts, reported.engine.max_restart_attempts) == (
        "warming it up",
        2,
        3,
    )
    assert reported.ladder.rung == "normal"
    assert {name: objective.first_token_timeout_s for name, objective in reported.objectives.items()} == {
        "realtime": 15.0,
        "normal": 60.0,
        "batch": 600.0,
    }


def test_after_a_while_without_a_reader_the_old_status_is_not_shown(
    stub: StubServer, telling: Callable[..., ServerStatusSource]
) -> None:
    """The first reading waits for a new one, as the very first did."""
    now = [0.0]
    source = telling(OPERATOR_TOKEN, clock=lambda: now[0])
    assert source.read(10.0).engine.state == "up"
    stub.world.state = "restarting"
    now[0] = 3600.0
    assert source.read(10.0).engine.state == "restarting"
    source.close()


def test_the_status_of_a_server_without_a_ladder(stub: StubServer, telling: Callable[..., ServerStatusSource]) -> None:
    """The other parts of an older version's status are read."""
    stub.forced["GET", "/headway/v1/fallback"] = (404, {"detail": "Not Found"})
    source = telling(VIEWER_TOKEN)
    source.poll()
    reported = source.read()
    source.close()
    assert reported.known
    assert reported.ladder.rung == ""
    assert reported.warmup.stages["batch"] == [1.9, 1.31, 1.28]


@pytest.mark.parametrize("status", [404, 500])
def test_a_server_that_does_not_show_its_preset_gives_the_rest(
    stub: StubServer, telling: Callable[..., ServerStatusSource], status: int
) -> None:
    """Then no objective is known, which is not the same as there being none."""
    stub.forced["GET", "/headway/v1/preset"] = (status, {"detail": "no"})
    source = telling(OPERATOR_TOKEN)
    source.poll()
    assert source.read().known
    assert source.read().objectives == {}
    source.close()


def test_without_a_token_the_probe_gives_the_reasons(
    stub: StubServer, telling: Callable[..., ServerStatusSource]
) -> None:
    """Nothing is asked that would be refused."""
    stub.world.ready, stub.world.state, stub.world.restart_step = False, "restarting", "pausing for 5 s"
    source = telling(None)
    source.poll()
    assert source.read() == Status(reasons=("the engine is being replaced: pausing for 5 s",))
    source.close()
    assert {path for _, path in stub.requests} == {"/headway/readyz"}


def test_a_refused_token_is_not_tried_again_at_once(
    stub: StubServer, telling: Callable[..., ServerStatusSource]
) -> None:
    """Each refusal is a line in the server's audit log: one in five minutes is enough."""
    now_s = 1000.0
    source = telling("x" * 40, clock=lambda: now_s)
    for _ in range(3):
        source.poll()
    assert [path for _, path in stub.requests if "v1" in path] == ["/headway/v1/fallback"]
    now_s += 301
    source.poll()
    assert len([path for _, path in stub.requests if "v1" in path]) == 2
    source.close()


def test_an_unreachable_server_gives_no_status(nobody: str) -> None:
    """Old words are not shown as if they were of now."""
    source = ServerStatusSource(nobody, OPERATOR_TOKEN)
    source.poll()
    assert source.read() == Status()
    source.close()
