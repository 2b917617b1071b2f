from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import environment
import pytest
from progress import Progress, StepError


class Recorder(Progress):
    """Records the commands of the steps; those that hold one of `failing` fail."""

    def __init__(self, log_path: Path, failing: tuple[str, ...] = ()) -> None:
        super().__init__(steps=7, log_path=log_path)
        self.commands: list[list[str]] = []
        self.failing = failing

    def run(self, label: str, command: list[str], env: dict[str, str], *, counts: bool = True) -> None:
        self.commands.append(command)
        if command[-1] in self.failing:
            raise StepError(label)


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "log")


def test_torch_comes_from_where_pip_is_configured_to_look(recorder: Recorder) -> None:
    """PyTorch's index is not asked while pip's own configuration has the wheel."""
    environment._install_torch(["pip"], recorder, {})
    assert recorder.commands == [["pip", environment.TORCH]]


def test_torch_comes_from_pytorch_otherwise(recorder: Recorder) -> None:
    """The second try names PyTorch's own CPU index, beside pip's configuration and not instead of it."""
    recorder.failing = (environment.TORCH,)
    environment._install_torch(["pip"], recorder, {})
    assert recorder.commands[1] == ["pip", environment.TORCH, "--extra-index-url", environment.TORCH_CPU_INDEX]


def test_torch_found_nowhere_says_what_to_do(recorder: Recorder) -> None:
    """One line that names both places and the way out."""
    recorder.failing = (environment.TORCH, environment.TORCH_CPU_INDEX)
    with pytest.raises(StepError, match="PIP_FIND_LINKS=FOLDER") as caught:
        environment._install_torch(["pip"], recorder, {})
    assert "\n" not in str(caught.value)


def test_an_environment_of_another_origin_is_not_changed(recorder: Recorder, tmp_path: Path) -> None:
    """A `.venv` that this set-up did not make is never wiped."""
    (tmp_path / "conda-meta").mkdir()
    (tmp_path / "other").symlink_to(tmp_path / "conda-meta")
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "other", tmp_path / "file"):
        with pytest.raises(StepError, match="move it away"):
            environment._make_venv(path, recorder, {})
    assert (tmp_path / "conda-meta").is_dir()


def test_a_folder_with_only_the_log_is_used(recorder: Recorder, tmp_path: Path) -> None:
    """A first set-up may have failed before it made anything else."""
    (tmp_path / "bootstrap.log").touch()
    environment._make_venv(tmp_path, recorder, {})
    assert (tmp_path / "made-for.txt").exists()


def test_an_environment_is_made_anew_where_its_place_changed(recorder: Recorder, tmp_path: Path) -> None:
    """The scripts in it name their folder: one that was moved must not be kept."""
    venv = tmp_path / "venv"
    environment._make_venv(venv, recorder, {})
    (venv / "bin").mkdir()
    (venv / "bin" / "pip").touch()
    environment._make_venv(venv, recorder, {})
    assert len(recorder.commands) == 1
    moved = venv.rename(tmp_path / "moved")
    environment._make_venv(moved, recorder, {})
    assert recorder.commands[-1][-1] == str(moved)
    assert not (moved / "bin").exists()


def test_the_lock_names_versions_only() -> None:
    """Hosts, paths, editable installs and the local part of a version stay out of the lock."""
    freeze = "zlib==1.0\n-e git+ssh://host/x.git@1#egg=y\ntorch==2.13.0+cpu\n# comment\nfrom-disk @ file:///x/y.whl\n"
    assert environment._pins(freeze) == ["torch==2.13.0", "zlib==1.0"]


def test_vllm_has_a_name(tmp_path: Path) -> None:
    """`importlib.metadata` finds the stub under the name that vLLM's commands ask for, once and only once."""
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    environment.name_vllm(tmp_path, environment.ENGINE_VERSION)
    environment.name_vllm(tmp_path, environment.ENGINE_VERSION)
    (found,) = metadata.distributions(path=[str(packages)])
    assert (found.metadata["Name"], found.version) == ("vllm", f"{environment.ENGINE_VERSION}+cpu")
    assert [file.name for file in found.files or []] == ["METADATA", "INSTALLER", "RECORD"]
    environment.name_vllm(tmp_path, "0.99.0")
    (found,) = metadata.distributions(path=[str(packages)])
    assert found.version == "0.99.0+cpu"


def test_a_users_pip_settings_that_would_misplace_packages_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index is the user's choice; the place of installation is the set-up's."""
    for name, value in {"PIP_USER": "1", "PYTHONPATH": "/x", "PIP_FIND_LINKS": "/wheels"}.items():
        monkeypatch.setenv(name, value)
    env = environment.pip_env()
    assert "PIP_USER" not in env
    assert "PYTHONPATH" not in env
    assert env["PIP_FIND_LINKS"] == "/wheels"


def test_the_versions_agree(root: Path) -> None:
    """The engine and the torch of the set-up are those of the lock, and the engine that of the project file."""
    pins = (root / "constraints.txt").read_text().splitlines()
    assert environment.ENGINE in pins
    assert f"torch=={environment.TORCH_VERSION}" in pins
    assert environment.MODEL_PACKAGE in pins
    assert f'cpu = ["{environment.ENGINE}"]' in (root / "pyproject.toml").read_text()


def test_the_lock_is_pins_and_nothing_else(root: Path) -> None:
    """No host, no path, no editable line: it works wherever the packages come from."""
    lines = [line for line in (root / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert len(lines) > 150
    assert [line for line in lines if "/" in line or "+" in line or line.count("==") != 1] == []
    names = [line.split("==")[0].lower() for line in lines]
    assert names == sorted(set(names))


def test_what_is_installed_is_what_is_locked(root: Path) -> None:
    """Every package of the running environment is pinned, at the version that is installed."""
    if not (Path(sys.prefix) / "bootstrap.stamp").exists():
        pytest.skip("this is not the environment that `make setup` makes")
    lines = (root / "constraints.txt").read_text().splitlines()
    pins = {name.lower().replace("_", "-"): version for name, _, version in (line.partition("==") for line in lines)}
    ours = {"pip", "vllm", "vllm-headway"}
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"],
        capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    installed = dict(line.lower().replace("_", "-").split("==") for line in listed)
    wrong = {
        name: (version, pins.get(name))
        for name, version in installed.items()
        if name not in ours and pins.get(name) != version.split("+")[0]
    }
    assert wrong == {}
