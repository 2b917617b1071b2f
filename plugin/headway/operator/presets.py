"""Catalogue of the presets that this server can switch to.

The bundled ones, those of the operator's folder (``HEADWAY_PRESET_DIR``) and a file named at the start. A file may
replace a bundled preset by taking its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headway.errors import UnknownPresetError
from headway.operator.reach import stated_seats
from headway_policies import Preset, PresetError, bundled_presets, load_preset
from headway_policies.close_name import no_such
from headway_policies.preset import for_instances
from headway_policies.request import PriorityClass, relative

#: The most presets in the operator's folder: each is read at the start, and listed in every answer.
MAX_FILES = 100

BUNDLED = "bundled"
GIVEN = "given"


@dataclass(frozen=True, slots=True)
class Listed:
    """A preset and where it came from: "bundled", "given" by the program, or the file's path."""

    preset: Preset
    source: str

    @property
    def is_file(self) -> bool:
        """Whether the preset came from a file of the operator's."""
        return self.source not in (BUNDLED, GIVEN)


class PresetCatalogue:
    """The presets known to this server, by name.

    The seats of a preset are those of one engine. In front of several ``instances`` there are as many times more.
    """

    def __init__(self, folder: str | Path | None = None, instances: int | None = None) -> None:
        """Read the folder. Raises PresetError with every error of every file."""
        self._instances = instances
        self._listed = {name: self._list(preset, BUNDLED) for name, preset in bundled_presets().items()}
        if folder is not None:
            self._add_folder(Path(folder))

    def _add_folder(self, folder: Path) -> None:
        if not folder.is_dir():
            raise PresetError(f"{folder}: the preset folder does not exist or is not a folder")
        paths = sorted(folder.glob("*.toml"))
        if len(paths) > MAX_FILES:
            raise PresetError(f"{folder}: has {len(paths)} presets, more than {MAX_FILES}")
        wrong = []
        for path in paths:
            try:
                self.add(path)
            except PresetError as error:
                wrong.append(error)
        if wrong:
            issues = [issue for error in wrong for issue in error.issues]
            raise PresetError("; ".join(map(str, wrong)), issues)

    def add(self, path: str | Path) -> Preset:
        """Read a preset file and add it. Raises PresetError."""
        preset = load_preset(path)
        known = self._listed.get(preset.name)
        if known is not None and known.source not in (BUNDLED, str(path)):
            raise PresetError(f"{path}: name: {preset.name!r} is already the name of {known.source}")
        self._listed[preset.name] = self._list(preset, str(path))
        return self._listed[preset.name].preset

    def include(self, preset: Preset) -> Preset:
        """Add a program's preset, replacing a preset of the same name."""
        self._listed[preset.name] = self._list(preset, GIVEN)
        return self._listed[preset.name].preset

    def _list(self, preset: Preset, source: str) -> Listed:
        if self._instances is None:
            return Listed(preset, source)
        return Listed(for_instances(preset, self._instances), source)

    def resolve(self, name_or_file: str) -> Preset:
        """The preset of that name, or the one in that file. Raises PresetError or UnknownPresetError."""
        if name_or_file.endswith(".toml") or "/" in name_or_file:
            return self.add(name_or_file)
        return self.get(name_or_file)

    def get(self, name: str) -> Preset:
        """The preset of that name. Raises UnknownPresetError, which lists the known names."""
        if name not in self._listed:
            raise UnknownPresetError(no_such("preset", name, self._listed))
        return self._listed[name].preset

    def __iter__(self) -> Iterator[Listed]:
        return iter(self._listed.values())

    def class_names(self) -> list[str]:
        """Every class of every preset, in a fixed order."""
        return list(dict.fromkeys(name for entry in self for name in entry.preset.by_urgency()))

    def times_s(self) -> set[float]:
        """The absolute objectives for a first token, and the time-outs before one, of every class."""
        named = [(term.ttft_slo_s, term.first_token_timeout_s, term.queue_timeout_s) for term in self._terms()]
        return {time_s for times_s in named for time_s in times_s if isinstance(time_s, int | float)}

    def inter_token_times_s(self) -> set[float]:
        """The absolute objectives for the time between tokens of every class."""
        stated = (term.inter_token_slo_ms for term in self._terms())
        return {slo_ms / 1000 for slo_ms in stated if isinstance(slo_ms, int | float)}

    def ranges_s(self) -> set[tuple[float, float]]:
        """The bounds of each relative objective for a first token, the smallest and the largest; infinite: no bound."""
        return {_range(term.ttft_slo_s, 1.0) for term in self._terms() if isinstance(term.ttft_slo_s, str)}

    def inter_token_ranges_s(self) -> set[tuple[float, float]]:
        """The same for the time between tokens."""
        stated = (term.inter_token_slo_ms for term in self._terms())
        return {_range(slo_ms, 0.001) for slo_ms in stated if isinstance(slo_ms, str)}

    def _terms(self) -> Iterator[PriorityClass]:
        return (terms for entry in self for terms in entry.preset.classes.values())

    def largest(self) -> Listed:
        """The preset that states the most seats; of several, the first."""
        return max(self, key=lambda entry: stated_seats(entry.preset))

    def stated_seats(self) -> int:
        """The largest number of seats that any preset states; presets that follow the engine may reach more."""
        return stated_seats(self.largest().preset)


def _range(stated: str, unit_s: float) -> tuple[float, float]:
    found = relative(stated)
    return found.least * unit_s, found.most * unit_s
