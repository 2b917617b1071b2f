"""Every page, as a user gets it, in every state of the server."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import timedelta, timezone

import pytest
from app_pages import again_until, class_rows, press, refresh_until, tiles, words
from streamlit.testing.v1 import AppTest
from stub_server import OPERATOR_TOKEN, VIEWER_TOKEN, StubServer
from stub_world import WARM
from tiers import long_form

from headway.api import schema
from headway_dashboard.pages import overview
from headway_policies.fallback.rungs import Rung

pytestmark = pytest.mark.slow

Open = Callable[..., AppTest]
WITHOUT = long_form("test_requests_without_a_token_has_no_moves, and the page engine, have no token")
SAME = long_form("the pages have one frame, and test_every_page others of a server that is down")


def test_overview_live(visit: Open, stub: StubServer) -> None:
    """Live: the badge, a diagnosis, all eight tiles with numbers, four charts and the class table."""
    stub.moving, stub.world.load = True, 3.0
    app = visit("overview", stub.url)
    text = again_until(app, "Live")
    again_until(app, "seats taken")
    assert "balanced" in text
    assert "Memory (CPU)" in tiles(app)
    assert len(app.metric) == 8
    refresh_until(app, lambda: "—" not in tiles(app).values())
    assert [row["Class"] for row in class_rows(app)] == ["realtime", "normal", "batch"]


def test_overview_says_that_the_limit_is_ordered(visit: Open, stub: StubServer) -> None:
    """By whom and until when, with what was written as plain text."""
    stub.world.ordered_limit = schema.OperatorLimit(seats=12, left_s=25.0, actor="ann", reason="headway *share*")
    app = visit("overview", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    text = again_until(app, "The limit is set by ann (headway *share*): 12 seats in place of the preset")
    assert "for another 25" in text
    assert [one for one in app.caption if "headway \\*share\\*" in one.value]


def test_overview_says_what_would_help(visit: Open, stub: StubServer) -> None:
    """More arrives than is served: the severity in a word, the best remedy with its cost, and its command to copy."""
    stub.moving, stub.world.load, stub.world.fail_ratio = True, 6.0, 0.0
    app = visit("overview", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    again_until(app, "#### :red-badge[overloaded] ")
    text = words(app)
    assert "**Remedy:** forecast the presets with the recent traffic. **Cost:** " in text
    assert "headway preset forecast" in [one.value for one in app.code]


def test_overview_has_one_clock_and_the_incident_another(
    visit: Open, stub: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page that of the visitor, the text for others UTC alone."""
    monkeypatch.setattr(overview, "zone_of", lambda offset_min: timezone(timedelta(hours=12)))
    scrape = stub.scrape
    monkeypatch.setattr(stub, "scrape", lambda: scrape() + b"headway_severity 3\n")
    app = visit("overview", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    text = again_until(app, " since ", "UTC, overloaded, since")
    stub.world.switch("latency", {}, "")
    refresh_until(app, lambda: len(app.table) > 0)
    assert "When (UTC+12:00)" in app.table[0].value.columns
    (here,) = re.findall(r"#### .*:small\[since (\d\d):", text)
    ((now, there),) = re.findall(r"(\d\d):\d\d:\d\d UTC, overloaded, since (\d\d):", text)
    assert (int(here) - int(there)) % 24 == 12
    assert (int(now) - int(there)) % 24 <= 1


def test_requests_shows_the_batches_that_have_not_ended(visit: Open, stub: StubServer) -> None:
    """And nothing of batches where there are none."""
    app = visit("requests", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    assert "Batches that have not ended" not in again_until(app, "Fallback ladder")
    stub.world.batches = [
        schema.BatchStatus(
            id="b7",
            tenant="acme",
            state="validating",
            completed=0,
            failed=0,
            total=9,
            expires="2026-11-22T10:11:12Z",
        )
    ]
    again_until(app, "Batches that have not ended")
    assert "b7" in [row[-1] for one in app.table for row in one.value.to_numpy().tolist()]


def test_overview_with_a_gpu(visit: Open) -> None:
    """With GPU figures the panel is the GPU's."""
    with StubServer(gpu=True, moving=True) as stub:
        app = visit("overview", stub.url)
        again_until(app, "Live")
        assert "GPU memory" in tiles(app)
        refresh_until(app, lambda: tiles(app)["GPU memory"] == "71.3 GiB / 79.6 GiB")


def test_overview_goes_down_and_comes_back(visit: Open) -> None:
    """The last known values stay, with their age, until the server is back."""
    with StubServer(moving=True) as stub:
        app = visit("overview", stub.url)
        again_until(app, "Live")
        again_until(app, "seats taken")
        port = int(stub.url.rsplit(":", 1)[1])
    again_until(app, "Down for")
    assert tiles(app)["Waiting"] != "—"
    assert "last known values" in app.error[0].value
    with StubServer(moving=True, port=port):
        again_until(app, "Live")


def test_class_filter_and_range(visit: Open, stub: StubServer) -> None:
    """The controls stand outside the live part and change what it shows."""
    stub.moving = True
    app = visit("overview", stub.url)
    again_until(app, "Live")
    app.run()
    stub.moving = False
    stub.world.queued.update({"batch": 7, "normal": 3})
    groups = {group.label: group for group in app.button_group}
    groups["Classes"].set_value(["batch"])
    groups["Range"].set_value("15m")
    again_until(app, "Live")
    refresh_until(app, lambda: tiles(app)["Waiting"] == str(stub.world.queued["batch"]))


def compare(app: AppTest) -> AppTest:
    """Press the button of the card of latency."""
    return app.button(key="compare-latency").click().run()


def apply_button(app: AppTest) -> bool:
    """Whether the apply button can be pressed."""
    return not next(one for one in app.button if one.label.startswith("Apply")).disabled


def test_control_applies_a_preset(visit: Open, stub: StubServer) -> None:
    """Compare, see the difference, give a reason, apply; the log has it, and the card moves."""
    app = visit("control", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    compare(app)
    difference = app.table[0].value
    shown = zip(difference["Setting"], difference["Now"], difference["After"], strict=True)
    assert next(shown) == ("batching.seats", "32", "8")  # and no window, which does nothing under continuous
    objectives = ("ttft\\_slo\\_s", "burst\\_s", "inter\\_token\\_slo\\_ms", "fallback.queue\\_age\\_s")
    assert all(text.endswith(objectives) for text in difference["Setting"][1:])
    assert stub.world.preset == "balanced"
    app.text_input(key="reason").set_value("rush hour")
    app.text_input(key="actor").set_value("anna")
    press(app, "Apply latency")
    assert stub.world.preset == "latency"
    assert "revision 2" in app.success[0].value.replace("\\", "")
    log = app.dataframe[0].value.iloc[0]
    assert (log["Actor"], log["After"], log["Reason"], log["Result"]) == ("anna", "latency", "rush hour", "applied")


def test_control_refuses_on_an_old_view(visit: Open, stub: StubServer) -> None:
    """Another operator switched meanwhile: nothing is applied, and the page says so and shows the new state."""
    app = visit("control", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    compare(app)
    stub.world.switch("throughput", {"actor": "ben", "role": "operator", "address": "-"}, "")
    press(app, "Apply latency")
    assert stub.world.preset == "throughput"
    assert "preset was changed meanwhile" in "".join(one.value for one in app.warning)  # a scrape may tell it as well
    assert app.table[0].value["Now"].iloc[0] == "64"


def test_control_says_that_a_switch_changed_nothing(visit: Open, stub: StubServer) -> None:
    """The preset is in force already when the order comes: the server answers with the revision of the page."""
    app = visit("control", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    compare(app)
    answer = {"name": "latency", "revision": 1, "previous": "latency", "changes": []}
    stub.forced["PUT", "/headway/v1/preset"] = (200, answer)
    press(app, "Apply latency")
    assert "was in force already, as revision 1. Nothing was changed." in app.success[0].value.replace("\\", "")


def test_control_learns_that_its_token_only_reads(visit: Open, stub: StubServer) -> None:
    """A viewer's token given as the operator's: refused once by the server, then not offered again."""
    app = visit("control", stub.url, HEADWAY_ADMIN_TOKEN=VIEWER_TOKEN)
    compare(app)
    press(app, "Apply latency")
    assert stub.world.preset == "balanced"
    assert "only read" in app.info[0].value
    assert not apply_button(app)


def test_control_shows_what_runs_now(visit: Open, stub: StubServer) -> None:
    """The live line above the cards has limit, ceiling, seats and queue."""
    stub.moving = True
    app = visit("control", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    text = again_until(app, "Live")
    assert "limit **32**" in text, text[-1000:]
    assert "ceiling **64**" in text


def test_control_says_that_a_preset_is_on_trial(visit: Open, stub: StubServer) -> None:
    """The page says which preset returns, when at the latest, and what keeps the new one."""
    stub.world.trial = schema.TrialEnds(back_to="latency", left_s=540.0)
    text = again_until(
        visit("control", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN), "The preset balanced is on trial"
    )
    assert "The trial ends within 9 min, and latency may return." in text
    assert "headway preset keep" in text


# ---------------------------------------------------------------------- the engine's notices


def world_of(stub: StubServer, **what: object) -> None:
    """Change the stub's world."""
    for name, value in what.items():
        setattr(stub.world, name, value)


@pytest.mark.parametrize(
    ("what", "words_there", "bar"),
    [
        (
            {"state": "restarting", "ready": False, "restart_step": "starting another engine", "restart_attempts": 2},
            ("Attempt 2 of 3: starting another engine",),
            True,
        ),
        (
            {"ready": False, "warmup": WARM.model_copy(update={"state": "running", "stages": {"single": [0.4]}})},
            ("Done so far: one request alone",),
            True,
        ),
        (
            {"recycling": True, "order_error": "head raised KeyError"},
            ("Recycle: the engine is about to be replaced", "The custom order of this preset was disabled"),
            False,
        ),
    ],
    ids=["restarting", "warming up", "recycle and a disabled order"],
)
def test_overview_shows_what_the_server_is_doing(
    visit: Open, stub: StubServer, what: dict[str, object], words_there: tuple[str, ...], bar: bool
) -> None:
    """With a token: the notice in full, with a progress bar where the progress is known."""
    world_of(stub, **what)
    app = visit("overview", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    again_until(app, *words_there)
    assert bool(app.get("progress")) is bar


def test_a_notice_goes_when_all_is_well_again(visit: Open, stub: StubServer) -> None:
    """Nothing stays on the page that is no longer true."""
    world_of(stub, state="restarting", ready=False, restart_step="warming it up", restart_attempts=1)
    app = visit("overview", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    again_until(app, "warming it up")
    world_of(stub, state="up", ready=True, restart_step="", restart_attempts=0)
    refresh_until(app, lambda: "being restarted" not in words(app))


# ---------------------------------------------------------------------- requests, batching & memory, server


@pytest.mark.parametrize(
    "page",
    [
        *(pytest.param(page, marks=WITHOUT) for page in ("requests", "server")),
        "engine",
    ],
)
@pytest.mark.parametrize(
    "token",
    [
        pytest.param(
            OPERATOR_TOKEN,
            marks=long_form("the tests below open each page with a token, test_every_page finds what is no number"),
            id="token",
        ),
        pytest.param("", id="no token"),
    ],
)
def test_pages_live(visit: Open, stub: StubServer, page: str, token: str) -> None:
    """Each page, with and without a token, is whole and says no None."""
    stub.moving = True
    app = visit(page, stub.url, **({"HEADWAY_ADMIN_TOKEN": token} if token else {}))
    text = again_until(app, "Live")
    assert "None" not in text
    assert "balanced" in text


@pytest.mark.parametrize(
    "page", ["overview", "server", *(pytest.param(page, marks=SAME) for page in ("requests", "engine"))]
)
def test_pages_down(visit: Open, nobody: str, page: str) -> None:
    """An unreachable server leaves a page that says so, without a traceback and without a zero."""
    app = visit(page, nobody, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    again_until(app, "Not reached since this page started")
    assert set(tiles(app).values()) <= {"—"}


def test_requests_shows_the_ladder(visit: Open, stub: StubServer) -> None:
    """Where it stands and why, its steps, and its moves; the badge is on the page as well."""
    stub.world.climb(Rung.CAP, "queue_age")
    stub.world.climb(Rung.SHED, "queue_age")
    app = visit("requests", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    text = again_until(app, "fallback: shed")
    assert "is at **shed** because of the age of the queue" in text
    steps, moves = (one.value for one in app.table)
    assert list(steps["To"]) == ["cap", "shed"]
    assert list(moves["Move"]) == ["cap → shed", "normal → cap"]


def test_requests_without_a_token_has_no_moves(visit: Open, stub: StubServer) -> None:
    """The numbers alone give the rung and the steps; the page says what a token would add."""
    stub.world.climb(Rung.PAUSE, "errors")
    app = visit("requests", stub.url)
    text = again_until(app, "fallback: pause")
    assert "is at **pause**: all requests wait." in text
    assert "The dashboard needs a token of the server" in text


def test_engine_says_why_the_limit_is_what_it_is(visit: Open, stub: StubServer) -> None:
    """Live, proposed and ceiling with the reason, and the collector's longest pause."""
    stub.world.limit_reason = "slo"
    app = visit("engine", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    text = again_until(app, "live **32** · proposed **32** · ceiling **64**")
    assert "no growth: the time between tokens is over the SLO" in text
    assert "collection pause since the server started: 31" in text
    assert "answer length: 100 samples" in text
    assert "CPU backend, no GPU" in text


def test_server_shows_deaths_and_the_warm_up(visit: Open, stub: StubServer) -> None:
    """The key figures, and the warm-up as a table."""
    stub.world.deaths.update({"crash": 2, "out_of_memory": 1})
    world_of(stub, hangs=4, crash_suspects=2, retries=Counter({"normal": 6}), recycled=Counter({"command": 1}))
    app = visit("server", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    refresh_until(app, lambda: (tiles(app).get("Engine"), tiles(app).get("Engine deaths")) == ("up", "3"))
    assert tiles(app)["Hangs"] == "4"
    assert (tiles(app)["Retried"], tiles(app)["Recycles"]) == ("6", "1")
    (warmup,) = [one.value for one in app.table if "Rounds" in one.value]
    assert list(warmup["Rounds"]) == ["1", "1", "1", "3", "1"]


# ---------------------------------------------------------------------- orders


def order(app: AppTest, rung: str, confirm: str) -> AppTest:
    """Choose a rung, type the word, and press."""
    next(group for group in app.button_group if group.label == "Set it to").set_value(rung).run()
    app.text_input(key="ladder_reason").set_value("half the GPUs are away")
    app.text_input(key="ladder_actor").set_value("anna")
    app.text_input(key="ladder_confirm").set_value(confirm)
    return press(app, f"Set to {'automatic' if rung == 'auto' else rung}")


def test_control_orders_a_rung_and_lets_it_go(visit: Open, stub: StubServer) -> None:
    """Choose, confirm, and see the server's answer and the audit line; then automatic again."""
    app = visit("control", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    order(app, "shed", "Shed ")
    assert stub.world.rung is Rung.SHED
    assert "is at shed, as set here" in words(app)
    log = app.dataframe[0].value.iloc[0]
    assert (log["Actor"], log["Action"], log["After"]) == ("anna", "order fallback", "shed")
    order(app, "auto", "auto")
    assert not stub.world.ordered
    assert "is automatic again" in words(app)


def test_control_recycles(visit: Open, stub: StubServer) -> None:
    """Confirm, and the server's answer is shown; the second time it is the server's refusal."""
    stub.world.in_flight["normal"] = 3
    app = visit("control", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    app.text_input(key="recycle_confirm").set_value("recycle")
    press(app, "Recycle the engine")
    assert stub.world.recycling
    assert "Accepted. 3 seats are still taken." in words(app)
    app.text_input(key="recycle_confirm").set_value("recycle")
    press(app, "Recycle the engine")
    assert "Nothing was changed. a recycle is under way." in words(app)


def test_nothing_is_ordered_without_the_word(visit: Open, stub: StubServer) -> None:
    """A slip of the hand orders nothing, and the server is not even asked."""
    app = visit("control", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    order(app, "pause", "normal")
    app.text_input(key="recycle_confirm").set_value("")
    press(app, "Recycle the engine")
    assert 'type "pause" to confirm' in words(app)
    assert 'type "recycle" to confirm' in words(app)
    assert not {("PUT", "/headway/v1/fallback"), ("POST", "/headway/v1/recycle")} & {*stub.requests}
