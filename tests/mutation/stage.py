"""A copy of the tree in which mutmut works: the packages side by side at its top, the tests beside them.

mutmut takes a module's name from its path, and copies what it mutates once more, into ``mutants``. The live tree is
never touched.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterable
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from mutmut.configuration import reset_config
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.utils.format_utils import get_mutant_name, orig_function_and_class_names_from_key

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "headway_policies": "policies",
    "headway": "plugin",
    "headway_tools": "plugin",
    "headway_dashboard": "dashboard",
}
#: Exit status of a worker: the tests passed, there were none, the fault was never tried.
_NOT_NOTICED = (0, 5, 33, 34, None)
_TIMED_OUT = (24, -24, 36, 152, 255, -9)

#: Few examples, always the same; and names of tests that pytest finds again when they are handed to it.
PROFILE = r"""
import pytest
from hypothesis import Phase, settings


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc):
    parametrize = metafunc.parametrize

    def plainly(*args, ids=None, **more):
        def plain(value):
            name = ids(value)
            return name.replace("\\", "-") if isinstance(name, str) else name

        return parametrize(*args, ids=plain if callable(ids) else ids, **more)

    metafunc.parametrize = plainly


settings.register_profile(
    "mutants", phases=[Phase.explicit, Phase.generate], derandomize=True, database=None, max_examples=20
)
settings.load_profile("mutants")
"""

SETTINGS = """
[tool.mutmut]
source_paths = {packages}
only_mutate = {files}
also_copy = ["deploy", "policies", "plugin", "dashboard"]
pytest_add_cli_args = ["-p", "no:cacheprovider", "-p", "mutant_profile"]
pytest_add_cli_args_test_selection = {tests}
do_not_mutate_patterns = ['\\blog\\.(debug|info|warning|error|exception)\\(', '\\braise ValueError\\(']
use_git_change_detection = false
timeout_multiplier = 4.0
timeout_constant = 3.0
"""


@dataclass(frozen=True, slots=True)
class Target:
    """Files of the packages, the tests that have to notice their faults, and the least share of them to be noticed."""

    files: tuple[str, ...]
    tests: tuple[str, ...]
    least_ratio: float


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one fault: ``noticed``, and whether only by a time-out. ``old`` became ``new``."""

    file: str
    name: str
    noticed: bool
    timed_out: bool
    old: str = ""
    new: str = ""

    @property
    def function(self) -> str:
        """Where it is, as ``Class.method`` or ``function``."""
        function, class_name = orig_function_and_class_names_from_key(self.name)
        return function if class_name is None else f"{class_name}.{function}"


class Stage:
    """The copy, for one target."""

    def __init__(self, folder: Path, target: Target) -> None:
        self._folder = folder
        self._target = target
        skipped = shutil.ignore_patterns("__pycache__", "*.egg-info")
        for package, stands_in in PACKAGES.items():
            shutil.copytree(ROOT / stands_in / package, folder / package, ignore=skipped)
        for part in ("tests", "deploy"):
            shutil.copytree(ROOT / part, folder / part, ignore=skipped)
        for readme in (ROOT / "README.md", *ROOT.glob("*/README.md")):  # tests run their examples
            (folder / readme.parent.relative_to(ROOT)).mkdir(exist_ok=True)
            shutil.copy(readme, folder / readme.parent.relative_to(ROOT))
        (folder / "tests" / "support" / "mutant_profile.py").write_text(PROFILE, encoding="utf-8")
        project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        settings = {"packages": list(PACKAGES), "files": list(target.files), "tests": list(target.tests)}
        written = SETTINGS.format(**{key: json.dumps(value) for key, value in settings.items()})
        (folder / "pyproject.toml").write_text(project + written, encoding="utf-8")

    def faults(self, file: str) -> list[str]:
        """The names of all faults that can be put into a file."""
        with chdir(self._folder):
            reset_config()
            code = Path(file).read_text(encoding="utf-8")
            return [get_mutant_name(Path(file), name) for name in mutate_file_contents(file, code).mutant_names]

    def sample(self, most: int | None, seed: int) -> list[str]:
        """At most so many faults of each file, the same ones for the same seed; all for None."""
        chosen = []
        for file in self._target.files:
            names = self.faults(file)
            number = len(names) if most is None else min(most, len(names))
            chosen += sorted(random.Random(f"{seed} {file}").sample(names, number))
        return chosen

    def run(self, faults: Iterable[str], at_once: int) -> None:
        """Try these faults. Raises CalledProcessError when the tests fail without any."""
        program = "from mutmut.__main__ import cli; cli()"
        command = [sys.executable, "-c", program, "run", "--max-children", str(at_once), *faults]
        search = os.pathsep.join([str(self._folder / "tests" / "support"), os.environ.get("PYTHONPATH", "")])
        environment = {"PYTHONPATH": search, "HEADWAY_LONG_TESTS": ""}
        subprocess.run(command, cwd=self._folder, env=os.environ | environment, check=True)

    def fates(self) -> list[Fate]:
        """What became of those that were tried."""
        with chdir(self._folder):
            reset_config()
            return [fate for file in self._target.files for fate in self._fates_in(file)]

    def _fates_in(self, file: str) -> Iterable[Fate]:
        meta = json.loads(Path("mutants", f"{file}.meta").read_text(encoding="utf-8"))
        for name, status in meta["exit_code_by_key"].items():
            if status is None:
                continue
            noticed = status not in _NOT_NOTICED
            old, new = ("", "") if noticed else changed_lines(get_diff_for_mutant(name, path=file))
            yield Fate(file, name, noticed, status in _TIMED_OUT, old, new)


def changed_lines(diff: str) -> tuple[str, str]:
    """What a unified diff takes away and what it puts there, each as one line."""
    lines = [one for one in diff.splitlines() if not one.startswith(("---", "+++", "@@"))]
    old, new = ([line[1:].strip() for line in lines if line.startswith(sign)] for sign in "-+")
    return " ".join(old), " ".join(new)
