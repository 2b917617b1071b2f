"""History of the presets that were in force: what can be put in force again, and how often each was switched to."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from headway_policies import Preset, changes

#: The revisions that can be put in force again.
MAX_REVISIONS = 100


@dataclass(slots=True)
class SwitchHistory:
    """Switches of the preset since the start. Times are seconds of the wall clock ``wall_s``.

    ``presets`` are those of the last revisions, by their numbers: what can be put in force again. Of a limit that was
    set for a while it has the preset without the command, which holds while it is shown as one, and not for good.
    """

    presets: dict[int, Preset]
    wall_s: Callable[[], float] = time.time
    started_s: float = field(init=False)
    last_change_s: float = field(init=False)
    switches: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.started_s = self.last_change_s = self.wall_s()

    def switched(self, preset: Preset, revision: int) -> None:
        """Count a switch to this preset as this revision."""
        self.last_change_s = self.wall_s()
        self.switches[preset.name] += 1
        self.presets[revision] = preset
        if len(self.presets) > MAX_REVISIONS:
            del self.presets[min(self.presets)]

    def before(self, revision: int, in_force: Preset) -> int | None:
        """The last earlier revision that differs from the settings in force; None if none is known."""
        return max((past for past in self.presets if past < revision and self._differs(past, in_force)), default=None)

    def _differs(self, revision: int, in_force: Preset) -> bool:
        preset = self.presets[revision]
        return preset.name != in_force.name or bool(changes(preset, in_force))
