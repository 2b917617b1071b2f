"""The form that silences an alert, and the button that ends a silence."""

from __future__ import annotations

from collections.abc import Callable

import live_stand_in
import pytest
from live_stand_in import LiveStandIn
from streamlit.testing.v1 import AppTest
from stub_server import VIEWER_TOKEN, StubServer

from headway.api import Silence
from headway_dashboard.server_client import admin_client

pytestmark = pytest.mark.slow

SCRIPT = """
from dataclasses import replace
from headway_dashboard.analysis.diagnosis.alerts import Alert
from headway_dashboard.pages.silencing import silencing_of
from headway_dashboard.server_client import admin_client
from headway_dashboard.settings import Settings

settings = Settings.from_environment()
if (draw := silencing_of(settings)) is not None:
    silent = {one.alert: one for one in admin_client(settings.url, settings.token).status().silences}
    alerts = [Alert(name, "warning", "late") for name in ("HeadwayQueueLong", "HeadwayQueueOld")]
    draw([replace(alert, silence=silent.get(alert.name)) for alert in alerts])
"""


def _silences(live: LiveStandIn) -> list[Silence]:
    """As the server tells them."""
    return admin_client(live.url, live_stand_in.TOKEN).status().silences


def test_an_alert_is_silenced_and_its_silence_is_ended(watching: Callable[..., None], live: LiveStandIn) -> None:
    """With the time, the reason and the name of the form; an alert that is silent is not offered again."""
    watching(live.url, HEADWAY_ADMIN_TOKEN=live_stand_in.TOKEN)
    app = AppTest.from_string(SCRIPT, default_timeout=60).run()
    app.selectbox(key="silence_alert").set_value("HeadwayQueueOld")
    app.selectbox(key="silence_time").set_value("8 h")
    app.text_input(key="silence_reason").set_value("load test")
    app.text_input(key="silence_actor").set_value("ann")
    app.button[0].click().run()
    assert not app.exception
    (silence,) = _silences(live)
    assert (silence.alert, silence.reason, silence.actor) == ("HeadwayQueueOld", "load test", "ann")
    assert live.control.audit.entries(1)[0].result == "applied: HeadwayQueueOld, for 8 h 0 min"
    assert "HeadwayQueueOld is silent" in app.success[0].value
    assert app.selectbox(key="silence_alert").options == ["HeadwayQueueLong"]
    app.button(key="unsilence_HeadwayQueueOld").click().run()
    assert _silences(live) == []


def test_a_viewer_and_a_dashboard_of_several_servers_are_offered_nothing(
    watching: Callable[..., None], stub: StubServer
) -> None:
    """No form, no button."""
    watching(stub.url, HEADWAY_VIEWER_TOKEN=VIEWER_TOKEN)
    assert not AppTest.from_string(SCRIPT, default_timeout=60).run().selectbox
    watching(f"{stub.url},http://127.0.0.1:1", HEADWAY_ADMIN_TOKEN=live_stand_in.TOKEN)
    assert not AppTest.from_string(SCRIPT, default_timeout=60).run().selectbox
