"""The command that adds an extra works from where Headway was installed."""

from __future__ import annotations

import json
import shutil
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headway_tools.console.installation import install_command

REQUIREMENTS = [
    "requests>=2.31",
    'streamlit<2; extra == "dashboard"',
    "vllm-headway[tools]; extra == 'dashboard'",
    "shtab>=1.9; extra == 'tools'",
    "vllm>=0.29; extra == 'gpu'",
]


@pytest.fixture(autouse=True)
def _own_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: str(Path(sys.executable).with_name(name)))


def _came(monkeypatch: pytest.MonkeyPatch, source: dict[str, Any] | None) -> None:
    text = None if source is None else json.dumps(source)
    monkeypatch.setattr(metadata, "distribution", lambda name: SimpleNamespace(read_text=lambda file: text))
    monkeypatch.setattr(metadata, "requires", lambda name: REQUIREMENTS)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(None, "pip install 'vllm-headway[gpu,dashboard]'", id="index"),
        pytest.param(
            {"url": "https://example.org/h.whl", "archive_info": {}},
            "pip install 'vllm-headway[gpu,dashboard] @ https://example.org/h.whl'",
            id="file elsewhere",
        ),
        pytest.param(
            {"url": "https://example.org/h.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "pip install 'vllm-headway[gpu,dashboard] @ git+https://example.org/h.git@abc'",
            id="repository",
        ),
        pytest.param(
            {"url": "file:///is/gone", "dir_info": {"editable": True}},
            "pip install 'streamlit<2' 'shtab>=1.9' 'vllm>=0.29'",
            id="gone",
        ),
    ],
)
def test_the_source_is_named_as_it_was_given(
    source: dict[str, Any] | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the packages of the extras, and of the extras that these name, where the source is gone."""
    _came(monkeypatch, source)
    assert install_command("gpu", "dashboard") == expected


@pytest.mark.parametrize(
    ("details", "flag"), [({"dir_info": {"editable": True}}, "-e "), ({"dir_info": {}}, ""), ({"archive_info": {}}, "")]
)
def test_a_folder_or_a_file_of_this_machine_is_named_by_its_path(
    details: dict[str, Any], flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quoted for the shell; a checkout that runs in place stays so."""
    place = tmp_path / "my wheels"
    place.mkdir()
    _came(monkeypatch, {"url": place.as_uri(), **details})
    assert install_command("tools") == f"pip install {flag}'{place}[tools]'"


def test_packages_that_run_without_being_installed_name_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing says where they came from."""

    def none(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", none)
    assert install_command("tools") == "pip install 'vllm-headway[tools]'"


def test_the_command_installs_into_the_python_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pip by the interpreter's path where the shell's `pip` is another one; without one, uv where there is one."""
    _came(monkeypatch, None)
    monkeypatch.setattr(shutil, "which", lambda name: "/another/pip")
    assert install_command("tools") == f"{sys.executable} -m pip install 'vllm-headway[tools]'"
    monkeypatch.setattr(metadata, "distributions", lambda name: iter(()))
    assert install_command("tools") == f"uv pip install --python {sys.executable} 'vllm-headway[tools]'"
    monkeypatch.setattr(shutil, "which", lambda name: None)
    its_own = f"{sys.executable} -m ensurepip && {sys.executable} -m pip install"
    assert install_command("tools") == f"{its_own} 'vllm-headway[tools]'"
