"""The button that tries the preset of the best remedy."""

from __future__ import annotations

import time
from collections.abc import Callable

import live_stand_in
import pytest
from live_stand_in import LiveStandIn
from streamlit.testing.v1 import AppTest
from stub_server import VIEWER_TOKEN, StubServer

from headway.audit import Caller

pytestmark = pytest.mark.slow

SCRIPT = """
from headway_dashboard.pages import head, overview
from headway_dashboard.pages.page_reading import read_page
from headway_dashboard.pages.try_remedy import try_button
from headway_dashboard.shared import watched
from headway_policies.diagnosis import Remedy

settings, source, server_status = watched()
reading = read_page(overview.PAGE, source, server_status, head.view(source))
try_button(Remedy("another preset", "none", "{command}"), reading)
"""


def again_until(app: AppTest, held: Callable[[], bool]) -> None:
    """Run the page again until that holds."""
    for _ in range(60):
        if held():
            return
        time.sleep(0.1)
        app.run()
    raise AssertionError("it never held")


def opened(command: str) -> AppTest:
    """A page with the button of a remedy, once the first figures are there."""
    app = AppTest.from_string(SCRIPT.format(command=command), default_timeout=60).run()
    for _ in range(20):
        if app.button:
            break
        app.run()
    assert not app.exception
    return app


def test_it_puts_the_preset_on_trial_for_five_minutes(watching: Callable[..., None], live: LiveStandIn) -> None:
    """With a condition on refusals, and with its reason in the audit log; no other preset is put in force."""
    watching(live.url, HEADWAY_ADMIN_TOKEN=live_stand_in.TOKEN)
    app = opened("headway preset use latency --revert-after 10m")
    (button,) = app.button
    assert button.label == "Try latency for 5 min"
    button.click().run()
    assert live.preset.name == "latency"
    trial = live.control.trials.running
    assert trial is not None
    assert trial.terms.revert_after_s == 300.0
    assert [str(one) for one in trial.terms.revert_if] == ["refused_ratio > 0.1 for 30 s"]
    assert live.control.audit.entries(1)[0].reason == "tried as the best remedy of the diagnosis"
    assert "The preset is on trial: the watch is on the page Control" in app.success[0].value.replace("\\", "")
    again_until(app, lambda: app.session_state["try_seen"])
    live.call(live.control.switch("balanced", expected_revision=None, caller=Caller("ann", "operator")))
    again_until(app, lambda: not app.success)


def test_nobody_is_offered_what_is_no_preset_or_not_allowed(watching: Callable[..., None], stub: StubServer) -> None:
    """A remedy of another kind, and a viewer."""
    watching(stub.url, HEADWAY_VIEWER_TOKEN=VIEWER_TOKEN)
    assert not opened("headway preset use latency").button
    watching(stub.url, HEADWAY_ADMIN_TOKEN=live_stand_in.TOKEN)
    assert not opened("headway preset forecast").button
