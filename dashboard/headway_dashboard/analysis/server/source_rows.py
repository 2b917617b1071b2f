"""Table rows of the health of each source, and of a server's start, settings and log."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from headway.api.schema import LaunchStatus, LogWarning, Setting
from headway_dashboard.analysis.queries.reading import Health, SourceReading
from headway_dashboard.analysis.server.condition import Activity, State, condition
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.analysis.units import MISSING, compact, duration
from headway_policies.preset import toml_text

ADMIN_API = "admin API"


def source_rows(reading: SourceReading, status: Status, now_s: float) -> list[dict[str, str]]:
    """A row for each source: whether it answers, how old its newest figures are, and what is wrong with it."""
    rows = [_row(reading.source, reading.health, reading.interval_s, now_s)]
    if len(reading.instances) > 1 or reading.note:
        rows += [_row(name, health, reading.interval_s, now_s) for name, health in sorted(reading.instances.items())]
    if reading.note:
        rows.append({"Source": "Prometheus", "State": "away", "Newest figures": MISSING, "Trouble": reading.note})
    for name, own in (status.servers or {"": status}).items():
        trouble = "" if own.known else "no answer, or this dashboard has no token for the server"
        state = "answers" if own.known else "not read"
        label = f"{ADMIN_API} of {name}" if name else ADMIN_API
        rows.append({"Source": label, "State": state, "Newest figures": MISSING, "Trouble": trouble})
    return rows


def _row(name: str, health: Health, interval_s: float, now_s: float) -> dict[str, str]:
    found = condition(health, Activity(), now_s, interval_s)
    age = MISSING if health.last_ok_s is None else f"{duration(round(max(0.0, now_s - health.last_ok_s)))} old"
    state = "answers" if found.state is State.LIVE else str(found.state)
    return {"Source": name, "State": state, "Newest figures": age, "Trouble": health.detail if health.trouble else ""}


def warning_rows(warnings: Sequence[LogWarning]) -> list[dict[str, str]]:
    """A row for each line of the log, the newest first."""
    return [
        {
            "Last at (UTC)": line.time.replace("T", " ").removesuffix("Z"),
            "Level": line.level.lower(),
            "Line": line.message,
            "From": line.logger,
            "Times": compact(line.times),
        }
        for line in warnings
    ]


def setting_rows(settings: Mapping[str, Setting]) -> list[dict[str, str]]:
    """A row for each setting of the preset in force."""
    return [{"Setting": name, "Value": toml_text(value)} for name, value in sorted(settings.items())]


def launch_words(launch: LaunchStatus) -> str:
    """The variables and arguments of the start, as they would stand in a shell; empty where they are not known."""
    lines = [f"{name}={shlex.quote(value)}" for name, value in launch.variables.items()]
    return "\n".join([*lines, shlex.join(launch.arguments)] if launch.arguments else lines)
