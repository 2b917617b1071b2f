from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import bootstrap
import machine
import pytest
from progress import StepError


def test_the_stamp_follows_what_decides_the_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A changed project file, lock or script means a new install; nothing else does."""
    for name in bootstrap.DECIDING:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    seen = {bootstrap._fingerprint(), bootstrap._fingerprint()}
    assert len(seen) == 1
    for name in bootstrap.DECIDING:
        (tmp_path / name).write_text("changed")
        seen.add(bootstrap._fingerprint())
    assert len(seen) == 1 + len(bootstrap.DECIDING)


def test_a_second_run_says_nothing_and_does_nothing(root: Path) -> None:
    """With the stamp in place the set-up ends at once, run by the system's Python or from inside the environment."""
    if not bootstrap._is_current():
        pytest.skip("this environment was not made by `make setup`")
    done = subprocess.run(
        [sys.executable, root / "deploy" / "bootstrap.py"], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_the_scripts_need_only_the_standard_library(root: Path, tmp_path: Path) -> None:
    """A bare interpreter without any package runs them."""
    shutil.copytree(root / "deploy", tmp_path / "deploy", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-I", "-S", "-c"]
    script = f"import sys; sys.path.insert(0, {str(tmp_path / 'deploy')!r}); import bootstrap"
    subprocess.run([*command, script], check=True)


def test_an_old_python_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Too old a Python is refused by its version and its place."""
    monkeypatch.setattr(sys, "version_info", (3, 10, 0))
    with pytest.raises(StepError, match=r"Python 3\.11 or later is needed"):
        machine.check_machine(tmp_path, is_new=True)


def test_a_python_without_venv_names_the_missing_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Debian ships python3 without its venv module."""
    monkeypatch.setattr(machine.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(StepError, match="apt-get install python3-venv"):
        machine.check_machine(tmp_path, is_new=True)


@pytest.mark.parametrize(("is_new", "fails"), [(True, True), (False, False)], ids=["first run", "later run"])
def test_a_full_disk_is_said_before_anything_is_installed(
    is_new: bool, fails: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first run needs some GB; a later one does not."""
    usage = type(shutil.disk_usage(tmp_path))(10**11, 10**11 - 10**9, 10**9)
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda path: usage)
    if fails:
        with pytest.raises(StepError, match=r"1\.0 GB are free"):
            machine.check_machine(tmp_path, is_new=is_new)
    else:
        machine.check_machine(tmp_path, is_new=is_new)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """A machine with none of the programs and libraries; what would be installed is recorded."""
    installed: list[list[str]] = []
    monkeypatch.setattr(machine.shutil, "which", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None)
    monkeypatch.setattr(machine, "_loads", lambda library: True)
    monkeypatch.setattr(machine, "TEST_FONT", (Path("/nowhere"), "fonts-dejavu-core"))
    monkeypatch.setattr(machine.os, "geteuid", lambda: 0)
    monkeypatch.setattr(machine, "_apt_install", installed.append)
    monkeypatch.setattr(machine, "_compiler_packages", list)
    return installed


def test_a_demo_installs_no_browser(bare: list[list[str]]) -> None:
    """Only the tests want a browser and Prometheus."""
    machine.system_packages(for_tests=False)
    assert bare == []


def test_the_tests_programs_are_installed_by_root(bare: list[list[str]]) -> None:
    """Each package is named once."""
    machine.system_packages(for_tests=True)
    assert bare == [["chromium", "prometheus", "prometheus-alertmanager", "fonts-dejavu-core"]]


def test_without_root_the_missing_packages_are_named(
    bare: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is installed without an ordinary user's knowledge; the set-up goes on."""
    monkeypatch.setattr(machine.os, "geteuid", lambda: 1000)
    machine.system_packages(for_tests=True)
    assert bare == []
    assert "apt-get install chromium prometheus prometheus-alertmanager fonts-dejavu-core" in capsys.readouterr().out


def test_without_root_a_missing_library_stops_the_set_up(
    bare: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM cannot be imported without it."""
    monkeypatch.setattr(machine.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(machine, "_loads", lambda library: False)
    with pytest.raises(StepError, match="apt-get install libnuma1"):
        machine.system_packages(for_tests=False)


def test_a_missing_compiler_is_got(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one, a request for logprobs makes vLLM compile, fail, and end its engine."""
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    monkeypatch.setattr(machine.sysconfig, "get_path", lambda name: "/nowhere")
    assert machine._compiler_packages() == ["g++", "python3-dev"]
    monkeypatch.setenv("CXX", "clang++")
    assert machine._compiler_packages() == ["python3-dev"]
