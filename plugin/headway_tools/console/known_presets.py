"""Presets on this machine: the server's own catalogue, with errors for the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headway.errors import UnknownPresetError
from headway.settings import Environment
from headway_policies import PresetError
from headway_tools.console.exits import UsageError

if TYPE_CHECKING:
    from headway.operator import Listed, PresetCatalogue


def preset_dir(given: str | None, environ: Mapping[str, str]) -> Path | None:
    """The folder of ``--preset-dir`` or ``HEADWAY_PRESET_DIR``, absolute, or None."""
    name = given or Environment(environ).preset_dir
    return None if name is None else Path(name).expanduser().absolute()


def open_catalogue(folder: Path | None) -> PresetCatalogue:
    """Bundled presets and those of ``folder``. Raises UsageError for a bad file or a missing folder."""
    from headway.operator import PresetCatalogue  # takes half as long as all else that a command imports

    try:
        return PresetCatalogue(folder)
    except PresetError as error:
        raise UsageError(str(error)) from None


def find_preset(wanted: str, catalogue: PresetCatalogue) -> Listed:
    """A preset by its name, or by its file, which joins the catalogue. Raises UsageError."""
    try:
        preset = catalogue.resolve(absolute(wanted))
    except (PresetError, UnknownPresetError) as error:
        raise UsageError(f"{error}{_advice(wanted, error)}") from None
    return next(known for known in catalogue if known.preset.name == preset.name)


def absolute(wanted: str) -> str:
    """A file name as an absolute path, a preset's name as it is."""
    return str(Path(wanted).expanduser().absolute()) if is_file_name(wanted) else wanted


def is_file_name(wanted: str) -> bool:
    """Whether this means a file and not a name: it holds a path separator or ends in .toml."""
    return os.sep in wanted or wanted.endswith(".toml")


def _advice(wanted: str, error: Exception) -> str:
    if not isinstance(error, UnknownPresetError):
        return ""
    if Path(wanted).exists():
        return f" (for the file of that name write ./{wanted})"
    return " (or give the path of a .toml file)"
