"""The list of the alerts, as text."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

from streamlit.testing.v1 import AppTest

from headway.api.schema import Silence
from headway_dashboard.analysis.diagnosis.alerts import Alert
from headway_dashboard.components.alerts import facts

OLD = Alert(
    "HeadwayQueueOld", "warning", "a request waits", 8054.0, True, "normal", "20 s", "normal > 15 s", "Look at it."
)


def test_the_facts_of_an_alert() -> None:
    """Since when, of which class, its value, and when it fires; what is not known is left out."""
    assert facts(OLD, UTC) == "since 02:14:14 · class normal · now 20 s · fires at: normal > 15 s"
    assert facts(Alert("HeadwayNotReady", "critical", "not ready", 8054.0), UTC) == "since 02:14:14 at least"


def test_a_silence_has_its_end_its_author_and_its_reason() -> None:
    """An author who has given no name, and no reason, are not made up."""
    silence = Silence(alert="A", since="2026-01-01T00:00:00Z", ends="2026-01-01T01:00:00Z", actor="ann", reason="test")
    assert facts(replace(OLD, silence=silence), UTC).endswith("· silent until 2026-01-01 01:00:00, by ann: test")
    bare = silence.model_copy(update={"actor": "", "reason": ""})
    assert facts(replace(OLD, silence=bare), UTC).endswith("· silent until 2026-01-01 01:00:00, by nobody named")


def test_silenced_alerts_stand_in_the_line_as_their_number() -> None:
    """The first alert without a silence is named; where all are silent, none is."""
    script = """
from datetime import UTC
from headway.api.schema import Silence
from headway_dashboard.analysis.diagnosis.alerts import Alert
from headway_dashboard.components import alerts
silence = Silence(alert="B", since="2026-01-01T00:00:00Z", ends="2026-01-01T01:00:00Z", actor="ann")
alerts([{first}Alert("B", "critical", "bad", silence=silence)], UTC)
"""
    both = AppTest.from_string(script.format(first='Alert("A", "warning", "late"), ')).run()
    assert "badge[A] late" in both.markdown[0].value
    silent = AppTest.from_string(script.format(first="")).run()
    assert silent.markdown[0].value == "**Alerts:** 1 silenced"


def test_each_alert_has_its_first_step_and_a_link_to_its_runbook() -> None:
    """The link only where the address of the page is known."""
    script = """
from datetime import UTC
from headway_dashboard.analysis.diagnosis.alerts import Alert
from headway_dashboard.components import alerts
alerts([Alert("HeadwayQueueOld", "warning", "a request waits", action="Look at it.")], UTC, {url!r})
"""
    linked = AppTest.from_string(script.format(url="https://wiki/headway")).run()
    assert "[Runbook](https://wiki/headway#headwayqueueold)" in linked.markdown[-1].value
    bare = AppTest.from_string(script.format(url="")).run()
    assert bare.markdown[-1].value.endswith(":small[Look at it.]")
