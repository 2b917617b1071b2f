"""Presets with an adaptive limit, for an engine of unknown speed: one for each SLO of a series."""

from __future__ import annotations

from pathlib import Path

SEATS = 64
#: From 1 ms to 400 ms between tokens, each a quarter more than the one before it.
SLOS_MS = [1.25**step for step in range(28)]

PRESET = """
name = "{name}"
description = "For tests: the limit finds by itself where a token takes {slo_ms:.2f} ms."
default_class = "normal"

[batching]
seats = {seats}
window_ms = 0

[limit]
policy = "aimd"
inter_token_slo_ms = {slo_ms}
max_seats = {seats}

[queue]
max_waiting = 1000

[classes.normal]
priority = 1
max_waiting = 1000
queue_timeout_s = 600
total_timeout_s = 900
"""


def name_of(slo_ms: float) -> str:
    """The preset whose SLO is nearest."""
    nearest = min(SLOS_MS, key=lambda one: abs(one - slo_ms))
    return f"adaptive-{SLOS_MS.index(nearest)}"


def write_into(folder: Path) -> None:
    """A file for each."""
    for slo_ms in SLOS_MS:
        name = name_of(slo_ms)
        (folder / f"{name}.toml").write_text(PRESET.format(name=name, slo_ms=slo_ms, seats=SEATS), "utf-8")
