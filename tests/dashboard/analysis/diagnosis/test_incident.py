"""The text of an incident for others."""

from __future__ import annotations

from headway_dashboard.analysis.diagnosis.alerts import Alert
from headway_dashboard.analysis.diagnosis.headline import Headline
from headway_dashboard.analysis.diagnosis.incident import incident_text
from headway_dashboard.analysis.server.class_states import Cell
from headway_policies.diagnosis import Remedy, Severity

NOW_S = 1_700_000_000.0
CLASSES = [{"Class": Cell("normal"), "No answer": Cell("20\u00a0% (2 of 10)"), "TTFT p95": Cell("— / 2 s")}]
CHANGES = [{"When (UTC)": "2023-11-14 22:10:00", "Change": "Switch preset: a → b", "By": "ann", "Reason": ""}]
HEADLINE = Headline(
    Severity.OVERLOADED, "Limited by the seats.", ("Requests are refused.", "More."), Remedy("seats", "memory")
)


def test_all_that_is_known_stands_in_it() -> None:
    """Plain text: a time, the diagnosis, each class, alerts, changes, the link."""
    alerts = [Alert("HeadwayQueueOld", "warning", "the oldest waits 9 s")]
    found = incident_text(
        HEADLINE, "since 22:11", "host:8000", CLASSES, alerts, CHANGES, "http://d/?from=1&to=2", NOW_S
    )
    assert found.split("\n") == [
        "2023-11-14 22:13:20 UTC, overloaded, since 22:11",
        "State: Requests are refused. More.",
        "Why: Limited by the seats.",
        "Remedy: seats. Cost: memory.",
        "Server: host:8000",
        "Class normal: No answer 20 % (2 of 10)",
        "Alert HeadwayQueueOld: the oldest waits 9 s",
        "Change 2023-11-14 22:10:00 UTC: Switch preset: a → b, ann",
        "Link: http://d/?from=1&to=2",
    ]


def test_what_is_not_known_has_no_line() -> None:
    """A server that cannot be reached."""
    found = incident_text(Headline(None, "Connecting."), "", "host:8000", (), (), (), "", NOW_S)
    assert found.split("\n") == ["2023-11-14 22:13:20 UTC, unknown", "State: Connecting.", "Server: host:8000"]
