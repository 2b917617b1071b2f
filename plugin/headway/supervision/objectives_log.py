"""The log of the objectives: what a preset promises on this engine, once the warm-up has measured the engine.

A relative objective is a number only where the engine is known. The log has a line with all classes, and a warning for
each objective that the engine misses even for a request alone; both again after a switch to another preset. The server
goes on: such an objective refuses nothing.
"""

from __future__ import annotations

import logging

from headway.admission import Gate
from headway_policies.limits import ObjectivesNow

log = logging.getLogger(__name__)


class ObjectivesLog:
    """The log of one gate's objectives: once for each revision of its preset."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._revision: int | None = None

    def report(self) -> None:
        """Log the objectives in force, unless they are logged already or not known yet."""
        desk = self._gate.desk
        unloaded = desk.engine_fit.unloaded
        if self._revision == desk.mode.revision or unloaded is None or not desk.mode.engine_up:
            return
        self._revision = desk.mode.revision
        preset, tokens = desk.preset, desk.read(self._gate.now_s()).usual_prompt_tokens
        now = {name: ObjectivesNow.of(preset.classes[name], unloaded, tokens) for name in preset.by_urgency()}
        said = [f"{name}: {objectives.words}" for name, objectives in now.items() if objectives.words]
        if said:
            log.info("objectives of %s on this engine: %s", preset.name, "; ".join(said))
        for name, objectives in now.items():
            for sentence in objectives.missed_alone(preset.name, name):
                log.warning("%s", sentence)
