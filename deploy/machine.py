"""Requirements of the machine, checked before anything is installed, and met with Debian's packages where possible."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

from progress import Progress, StepError

NEEDED_DISK_GB = 6
REQUIRED_LIBRARY = ("libnuma.so.1", "libnuma1")
TEST_PROGRAMS = {
    "chromium": "chromium",
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "prometheus-alertmanager": "prometheus-alertmanager",
}
TEST_FONT = (Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"), "fonts-dejavu-core")


def check_machine(root: Path, *, is_new: bool) -> None:
    """Raise StepError where Python, its venv module or the free disk will not do."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this file is run by whatever python3 there is
        raise StepError(f"Python 3.11 or later is needed; this is {platform.python_version()} ({sys.executable})")
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        raise StepError("this python3 has no venv module; on Debian and Ubuntu: apt-get install python3-venv")
    free_gb = shutil.disk_usage(root).free / 1e9
    if is_new and free_gb < NEEDED_DISK_GB:
        raise StepError(f"{free_gb:.1f} GB are free under {root}, and about {NEEDED_DISK_GB} GB are needed")


def system_packages(*, for_tests: bool) -> None:
    """Install the packages that pip cannot bring with apt-get where that is possible, else name them in one line."""
    needed = [] if sys.platform != "linux" or _loads(REQUIRED_LIBRARY[0]) else [REQUIRED_LIBRARY[1]]
    helpful = _compiler_packages() + (_test_packages() if for_tests else [])
    packages = list(dict.fromkeys(needed + helpful))
    if not packages:
        return
    if shutil.which("apt-get") and os.geteuid() == 0:
        _apt_install(packages)
        return
    advice = f"not here: {', '.join(packages)}; as root: apt-get install {' '.join(packages)}"
    if needed:
        raise StepError(advice)
    print(f"        {advice}", flush=True)
    print("        going on without: what needs them is skipped or slower", flush=True)


def _compiler_packages() -> list[str]:
    """vLLM compiles C++ while it runs; with no compiler, one request for logprobs ends the whole engine."""
    compiler = [] if os.environ.get("CXX") or shutil.which("g++") else ["g++"]
    headers = [] if (Path(sysconfig.get_path("include")) / "Python.h").exists() else ["python3-dev"]
    return compiler + headers


def _test_packages() -> list[str]:
    programs = [package for program, package in TEST_PROGRAMS.items() if not shutil.which(program)]
    return programs + ([] if TEST_FONT[0].exists() else [TEST_FONT[1]])


def _apt_install(packages: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="headway-apt-") as folder:
        progress = Progress(steps=2, log_path=Path(folder) / "apt.log")
        env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        try:
            progress.run("Debian's package lists", ["apt-get", "update"], env)
            install = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
            progress.run(f"Debian packages: {' '.join(packages)}", install, env)
        except StepError as error:
            print(progress.tail(), file=sys.stderr)
            raise StepError(f"{error}; try `apt-get install {' '.join(packages)}` by hand") from error


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
