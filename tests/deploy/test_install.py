"""The package alone, as README.md installs it, in an environment that has no vLLM and no dashboard."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tiers import long_form

pytestmark = [pytest.mark.slow, long_form("tests/plugin/test_public_api has it with vLLM and torch out of reach")]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def run(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a program of an environment that the first commands of README.md have filled, word by word."""
    folder = tmp_path_factory.mktemp("bare")
    clone, venv = folder / "clone", folder / "venv"
    shutil.copytree(root, clone, ignore=shutil.ignore_patterns(".*", "out", "dist", "tests"))
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    section = (root / "README.md").read_text(encoding="utf-8").partition("## Install\n")[2].partition("\n## ")[0]
    commands = [line.strip() for line in section.splitlines() if line.startswith("    ")]
    assert commands[-1] == "headway --version"
    environment = {**os.environ, "PATH": f"{venv / 'bin'}:{os.environ['PATH']}"}
    environment["PIP_CONSTRAINT"] = str(root / "constraints.txt")
    done = subprocess.run(
        ["bash", "-ec", "\n".join(commands)], cwd=clone, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0 and not os.environ.get("CI"):
        pytest.skip(f"the base dependencies cannot be installed here: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HEADWAY", "VLLM", "PYTHON"))}

    def call(program: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [venv / "bin" / program, *words], env=clean, cwd=venv, capture_output=True, text=True, check=False
        )

    return call


def test_the_packages_import_without_an_engine(run: Run) -> None:
    """Nothing at import time needs vLLM, Streamlit or plotly."""
    code = (
        "import headway, headway_policies, sys; assert not {'vllm', 'torch', 'streamlit', 'plotly'} & set(sys.modules)"
    )
    done = run("python", "-W", "error", "-c", code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["serve", "--help"], ["preset", "list"]], ids=" ".join)
def test_what_needs_no_engine_works(run: Run, words: list[str]) -> None:
    """Help, version and the bundled presets."""
    done = run("headway", *words)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_the_presets_come_with_the_package(run: Run) -> None:
    """The wheel carries its data files."""
    listed = run("headway", "preset", "list").stdout
    assert all(name in listed for name in ("latency", "balanced", "throughput"))


def test_serving_without_vllm_says_what_to_install(run: Run, tmp_path: Path) -> None:
    """One line that names vLLM and the command, and an exit code for scripts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    done = run("headway", "serve", str(tmp_path), "--host", "127.0.0.1", "--port", str(port))
    assert done.returncode in (1, 2)
    assert done.stderr.count("\n") == 1, done.stderr
    assert "vLLM" in done.stderr
    assert "pip install" in done.stderr


def test_the_dashboard_without_its_parts_says_what_to_install(run: Run) -> None:
    """The same for the dashboard's extra."""
    done = run("headway", "dashboard")
    assert done.returncode in (1, 2)
    assert "pip install " in done.stderr
    assert "none-any.whl[dashboard]'" in done.stderr
    assert "clone/dist/" in done.stderr
