"""The page Control: trials, undo, held limits and the audit log, in every state of the server."""

from __future__ import annotations

from collections.abc import Callable

import live_stand_in
import pytest
from app_pages import again_until, press, words
from live_stand_in import LiveStandIn
from streamlit.testing.v1 import AppTest
from stub_server import VIEWER_TOKEN, StubServer

from headway.api.schema import Trial

pytestmark = pytest.mark.slow

Open = Callable[..., AppTest]
TRIAL = ("GET", "/headway/v1/preset/trial")
KEEP = ("POST", "/headway/v1/preset/keep")
UNDO = ("POST", "/headway/v1/preset/undo")


def apply(app: AppTest, *, after: str = "", conditions: str = "") -> AppTest:
    """Compare latency and apply it on these terms."""
    app.button(key="compare-latency").click().run()
    app.text_input(key="revert_after").set_value(after)
    app.text_area(key="revert_if").set_value(conditions)
    return press(app, "Apply latency")


@pytest.mark.parametrize(
    ("name", "token"), [("HEADWAY_VIEWER_TOKEN", VIEWER_TOKEN), ("HEADWAY_ADMIN_TOKEN", "")], ids=["viewer", "none"]
)
def test_readers_see_all_and_press_nothing(control: Open, stub: StubServer, name: str, token: str) -> None:
    """Every button that would change something is disabled; the server is asked for no forecast."""
    stub.world.switch("latency", {"actor": "ben", "role": "operator", "address": "-"}, "")
    app = control(stub.url, token, name)
    assert "it needs the operator's token" in words(app)
    free = {one.label for one in app.button if not one.disabled}
    assert free <= {"Compare", "Show the new state"}
    assert not [one for one in stub.requests if one[0] != "GET"]


# ---------------------------------------------------------------------- trials


def test_a_trial_is_watched_and_kept(control: Open, live: LiveStandIn) -> None:
    """Applied on trial; its conditions and its end stand there, and Keep ends it. The page keeps no token."""
    app = apply(control(live.url, live_stand_in.TOKEN), after="10m", conditions="error_ratio > 0.5 for 20 s")
    assert live.preset.name == "latency"
    assert live_stand_in.TOKEN not in repr(app.main) + repr(app.session_state) + repr(app.query_params)
    text = words(app)
    assert "is on trial: balanced returns in" in text
    assert "The preset is on trial" in app.success[0].value.replace("\\", "")
    conditions = next(one.value for one in app.table if "Goes back if" in one.value)
    assert [text.replace("\\", "").replace("\xa0", " ") for text in conditions["Limit"]] == [
        "> 50 %", "> 10 %"  # the second is on refusals, and nobody has asked for it
    ]  # fmt: skip
    press(app, "Keep")
    text = again_until(app, "was kept")
    assert "latency stays, as revision" in text
    assert live.preset.name == "latency"


def test_a_trial_is_undone(control: Open, live: LiveStandIn) -> None:
    """Undo puts the earlier preset in force, and says so where the button is."""
    app = apply(control(live.url, live_stand_in.TOKEN), after="600")
    press(app, "Undo")
    text = again_until(app, "was ended by another change")
    assert live.preset.name == "balanced"
    assert "balanced is in force as revision" in text
    assert "The preset is on trial" not in text  # what the cards said of the switch


def test_a_trial_that_was_taken_back_says_why(control: Open, stub: StubServer) -> None:
    """The trial ended while the page was open."""
    known = {"name": "balanced", "revision": 1, "back_to": "latency", "revert_after_s": 600.0}
    stub.forced[TRIAL] = (200, {"trial": Trial.model_validate(known | {"left_s": 5.0}).model_dump(mode="json")})
    app = control(stub.url)
    assert "is on trial" in words(app)
    app.session_state["result"] = ("success", "balanced is in force as revision 1. It is on trial: watch it.")
    why = "error_ratio is 0.6: error_ratio > 0.5 for 30 s"
    ended = Trial.model_validate(known | {"end": "reverted", "why": why})
    stub.forced[TRIAL] = (200, {"trial": ended.model_dump(mode="json")})
    app.run()
    assert "was taken back: error_ratio is 0.6" in app.warning[0].value.replace("\\", "")
    assert "latency is in force again" in words(app)
    assert not app.success, "what the cards said of the switch holds no longer"


def test_a_kept_trial_that_is_stale_changes_nothing(control: Open, stub: StubServer) -> None:
    """The page says what to do next."""
    running = Trial(name="balanced", revision=1, back_to="latency", left_s=500.0, revert_after_s=600.0)
    stub.forced[TRIAL] = (200, {"trial": running.model_dump(mode="json")})
    stub.forced[KEEP] = (412, {"detail": "Revision 2 runs now."})
    app = press(control(stub.url), "Keep")
    assert "Nothing was changed; this is the new state. Look at it, and press again." in words(app)


BAD_TERMS = [
    ("soon", "", 'Revert after: "soon" is not a time'),
    ("", "error_ratio > 0.5\nslow", "Revert if, condition 2: 'slow' is not of the form"),
    ("", "gone.error_ratio > 0.5", "there is no class 'gone'"),
]


def test_bad_terms_name_themselves_and_keep_the_form(control: Open, stub: StubServer) -> None:
    """Nothing is sent; what was typed is still there, to be corrected."""
    app = control(stub.url)
    app.button(key="compare-latency").click().run()
    app.text_input(key="reason").set_value("rush hour")
    for after, conditions, sentence in BAD_TERMS:
        app.text_input(key="revert_after").set_value(after)
        app.text_area(key="revert_if").set_value(conditions)
        press(app, "Apply latency")
        assert sentence in app.error[0].value.replace("\\", "")
        assert ("PUT", "/headway/v1/preset") not in stub.requests
        kept = (app.text_input(key="reason").value, app.text_input(key="revert_after").value)
        assert kept == ("rush hour", after)
        assert app.text_area(key="revert_if").value == conditions


def test_what_the_server_refuses_is_said_with_what_to_do(control: Open, stub: StubServer) -> None:
    """422: correct it; the form stays open."""
    stub.forced["PUT", "/headway/v1/preset"] = (422, {"detail": "that preset has no seats."})
    app = apply(control(stub.url))
    assert "that preset has no seats. Correct it, and press again." in app.error[0].value.replace("\\", "")
    assert app.text_area(key="revert_if")


# ---------------------------------------------------------------------- undo, limit, audit


def test_an_earlier_revision_is_put_in_force_again(control: Open, live: LiveStandIn) -> None:
    """From the list of changes, with a reason; the log has it."""
    app = apply(control(live.url, live_stand_in.TOKEN))
    app.text_input(key="undo_reason").set_value("too few seats")
    press(app, "Undo to revision 1")
    assert live.preset.name == "balanced"
    assert "balanced is in force as revision 3" in words(app)
    newest = app.dataframe[0].value.iloc[0]
    assert (newest["Before"], newest["After"], newest["Reason"]) == ("latency", "balanced", "too few seats")


def test_an_undo_on_an_old_page_changes_nothing(control: Open, stub: StubServer) -> None:
    """The preset was changed meanwhile."""
    stub.world.switch("latency", {"actor": "ben", "role": "operator", "address": "-"}, "")
    stub.forced[UNDO] = (412, {"detail": "Revision 3 runs now."})
    app = press(control(stub.url), "Undo to revision 1")
    assert "preset was changed meanwhile. Nothing was changed" in app.warning[-1].value


def test_a_limit_is_held_and_released(control: Open, live: LiveStandIn) -> None:
    """With the word typed; what it costs stands beside it."""
    app = control(live.url, live_stand_in.TOKEN)
    for what, word in (("set", "Set 4 seats"), ("release", "Release the limit")):
        next(group for group in app.button_group if group.label == "Limit").set_value(what).run()
        if what == "set":
            app.number_input(key="limit_seats").set_value(4).run()
            assert "Now: " in words(app)
        app.text_input(key="limit_confirm").set_value(what)
        press(app, word)
        assert live.preset.batching.seats == (4 if what == "set" else 32)
        if what == "set":
            assert "The limit is set by " in again_until(app, ": 4 seats in place of the preset's, for another ")
    assert "balanced has its own limit again" in words(app)


# ---------------------------------------------------------------------- pause, drain, resume, warm-up


def choose(app: AppTest, word: str) -> AppTest:
    """Choose a command that stops dispatch, or ends that."""
    next(group for group in app.button_group if group.label == "Dispatch").set_value(word).run()
    return app


def ordered(app: AppTest, word: str, label: str, reason: str = "") -> AppTest:
    """Choose an order, type the word that confirms it, and press its button."""
    choose(app, word)
    app.text_input(key="admission_reason").set_value(reason)
    app.text_input(key="admission_confirm").set_value(word)
    return press(app, label)


def test_a_server_is_paused_drained_and_resumed(control: Open, live: LiveStandIn) -> None:
    """Each with its cost, its command and its result where the button is; the page says that it is stopped, and why."""
    app = choose(control(live.url, live_stand_in.TOKEN), "pause")
    assert "Now: no request runs; no request waits, and new ones wait too. Time-outs go on." in words(app)
    assert f"headway pause --url {live.url}" in [one.value for one in app.code]
    ordered(app, "pause", "Pause dispatch", "disk")
    desk = live.control.gateway.gate.desk
    assert desk.mode.state.value == "paused"
    assert "Paused: 0 running requests will finish, 0 waiting requests wait on." in words(app)
    again_until(app, ": disk.")
    ordered(app, "drain", "Drain the server")
    assert (desk.mode.state.value, "Drained: 0 waiting requests refused, none runs." in words(app)) == (
        "draining",
        True,
    )
    ordered(app, "resume", "Resume dispatch")
    assert desk.mode.state.value == "open"
    again_until(app, "Requests are dispatched.")
    shown = list(app.dataframe[0].value["Action"])
    assert {"pause admission", "drain admission", "resume admission"} <= set(shown)


def test_a_pause_with_an_end_is_ordered_and_shown(control: Open, live: LiveStandIn) -> None:
    """The command has it too, and a drain has none."""
    app = choose(control(live.url, live_stand_in.TOKEN), "pause")
    app.selectbox(key="admission_time").set_value("5 min").run()
    assert f"headway pause --for 300s --url {live.url}" in [one.value for one in app.code]
    ordered(app, "pause", "Pause dispatch", "disk")
    stop = live.control.admission.stop
    assert stop is not None
    assert stop.ends_s == pytest.approx(stop.since_s + 300.0)
    again_until(app, ": disk. The command ends by itself in ")
    choose(app, "drain")
    assert "admission_time" not in {one.key for one in app.selectbox}


def test_an_order_without_its_word_is_not_sent_and_one_that_is_carried_out_already_says_so(
    control: Open, live: LiveStandIn
) -> None:
    """A slip of the hand stops no server. Then the server's own sentence, with what to do."""
    app = choose(control(live.url, live_stand_in.TOKEN), "drain")
    app.text_input(key="admission_confirm").set_value("pause")
    press(app, "Drain the server")
    assert 'Nothing was changed: type "drain" to confirm.' in app.warning[-1].value.replace("\\", "")
    assert live.control.gateway.gate.desk.mode.state.value == "open"
    ordered(app, "resume", "Resume dispatch")
    assert "Nothing was changed. no command blocks dispatch." in app.error[0].value.replace("\\", "")


def test_an_alert_is_silenced_and_its_silence_is_ended(control: Open, live: LiveStandIn) -> None:
    """Any known alert, for a time; the end is offered while an alert is silent."""
    app = control(live.url, live_stand_in.TOKEN)

    async def silent() -> list[str]:
        return [silence.alert for silence in live.control.silences.active()]

    def send(word: str, label: str) -> None:
        next(group for group in app.button_group if group.label == "Action").set_value(word).run()
        if word == "silence":
            app.selectbox(key="silence_silence").set_value("HeadwayQueueOld").run()
            app.selectbox(key="silence_time").set_value("8 h").run()
            assert f"headway silence HeadwayQueueOld --for 28800s --url {live.url}" in [one.value for one in app.code]
        app.text_input(key="silence_reason").set_value("load test")
        app.text_input(key="silence_confirm").set_value(word)
        press(app, label)

    assert "end" not in next(group for group in app.button_group if group.label == "Action").options
    send("silence", "Silence the alert")
    assert live.call(silent()) == ["HeadwayQueueOld"]
    again_until(app, "Silent: HeadwayQueueOld")
    send("end", "End the silence")
    assert live.call(silent()) == []
    again_until(app, "No alert is silent.")


def test_the_engine_is_warmed_up_once_at_a_time(control: Open, live: LiveStandIn) -> None:
    """The card says that one runs; a second order is refused while it does."""
    app = control(live.url, live_stand_in.TOKEN)
    for _ in range(2):
        app.text_input(key="warmup_confirm").set_value("warm up")
        press(app, "Warm the engine up")
    assert "a warm-up is under way: wait for its end" in app.error[0].value.replace("\\", "")
    again_until(app, "A warm-up runs now.")
    live.warmed.set()
    again_until(app, "Now: batches of at most ")
    assert f"headway warmup --url {live.url}" in [one.value for one in app.code]


def test_a_card_that_is_pressed_twice_sends_its_command_once(control: Open, live: LiveStandIn) -> None:
    """A double click: the browser reports the press and the typed word again. The first answer stands."""
    app = control(live.url, live_stand_in.TOKEN)
    for asked in (1, 2):
        app.text_input(key="warmup_confirm").set_value("warm up")
        next(one for one in app.button if one.label == "Warm the engine up").click()
        pressed = app._tree.get_widget_states()
        for _ in range(2):
            app._run(pressed)
        assert not app.error
        assert app.success[0].value.startswith("Accepted")
        accepted = [one for one in live.control.audit.entries(500) if one.result.startswith("accepted")]
        assert len(accepted) == asked
        live.warmed.set()
        again_until(app, "Now: batches of at most ")


def test_the_audit_log_is_filtered_and_searched(control: Open, stub: StubServer) -> None:
    """By kind, and by any word. Beside it no rung is offered that would change nothing under the preset in force."""
    stub.world.usable = ["cap"]
    who = {"role": "operator", "address": "127.0.0.1"}
    stub.world.note(who | {"actor": "anna"}, "balanced", "latency", "rush hour", "applied")
    stub.world.note(who | {"actor": "ben"}, "latency", "serial", "", "refused: revision 3 runs now")
    app = control(stub.url)
    rungs = next(group for group in app.button_group if group.label == "Set it to")
    assert {"shed", "divert", "bypass"}.isdisjoint(rungs.options)
    assert list(app.dataframe[0].value["Actor"]) == ["ben", "anna"]
    assert "When (UTC)" in app.dataframe[0].value.columns
    next(group for group in app.button_group if group.label == "Show").set_value("refused").run()
    assert list(app.dataframe[0].value["Actor"]) == ["ben"]
    app.text_input(key="audit_search").set_value("anna").run()
    assert "None of the 2 entries matches." in words(app)


# ---------------------------------------------------------------------- login


def test_with_a_login_set_up_a_visitor_must_log_in(
    control: Open, stub: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is shown, nothing can be pressed, and there is a button to log in."""
    monkeypatch.setattr("headway_dashboard.rights.must_log_in", lambda: True)
    app = control(stub.url)
    assert "log in to change anything" in app.info[0].value
    assert {one.label for one in app.button if not one.disabled} <= {"Compare", "Log in"}


def test_a_press_without_a_login_does_nothing(control: Open, stub: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the page was drawn before."""
    app = control(stub.url)
    app.button(key="compare-latency").click().run()
    monkeypatch.setattr("headway_dashboard.pages.control.command_form.must_log_in", lambda: True)
    press(app, "Apply latency")
    assert "Nothing was applied: log in first." in words(app)
    assert stub.world.preset == "balanced"


def test_the_name_of_a_login_stands_in_the_audit_log(
    control: Open, stub: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A visitor who has logged in cannot give another name."""
    monkeypatch.setattr("headway_dashboard.pages.control.command_form.visitor_name", lambda: "anna@example.com")
    app = apply(control(stub.url))
    assert not [one for one in app.text_input if one.label == "Your name"]
    assert stub.world.audit[0].actor == "anna@example.com"
