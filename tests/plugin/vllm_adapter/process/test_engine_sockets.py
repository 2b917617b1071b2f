"""The folder of the engine's sockets: for one server, cleared of what no process has bound, and gone at its end."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.errors import HeadwayError
from headway.vllm_adapter.process import engine_sockets, orphan_killer
from headway.vllm_adapter.process.engine_sockets import own_folder, remove_folder, remove_unbound


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of its own."""
    monkeypatch.setenv(engine_sockets.VARIABLE, "")
    found = own_folder()
    assert found is not None
    yield found
    remove_folder(found)
    assert not found.exists()
    assert engine_sockets.VARIABLE not in os.environ


def bound(path: Path) -> socket.socket:
    """A socket at this path."""
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    return made


def test_only_sockets_that_nobody_has_bound_are_removed(folder: Path) -> None:
    """A live engine keeps its own."""
    live = bound(folder / "live")
    for name in ("dead", "also dead"):
        bound(folder / name).close()
    assert remove_unbound() == 2
    assert [path.name for path in folder.iterdir()] == ["live"]
    live.close()
    assert remove_unbound() == 1


def test_a_live_socket_stays_where_the_folder_has_a_space(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As TMPDIR may have."""
    spaced = tmp_path / "my tmp"
    spaced.mkdir()
    made = Path(tempfile.mkdtemp(prefix=engine_sockets._PREFIX, dir=spaced))
    monkeypatch.setenv(engine_sockets.VARIABLE, str(made))
    monkeypatch.chdir(made)
    live = bound(made / "a")
    assert remove_unbound() == 0
    live.close()
    assert remove_unbound() == 1


def test_a_folder_that_the_operator_has_named_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever is in it."""
    monkeypatch.setenv(engine_sockets.VARIABLE, str(tmp_path))
    (tmp_path / "file").touch()
    assert own_folder() is None
    assert remove_unbound() == 0
    remove_folder(None)
    assert (tmp_path / "file").exists()


def test_where_paths_would_be_too_long_the_folder_is_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A socket's path has 107 bytes at most; nothing is left behind. With nowhere else the variable to set is named."""
    deep = tmp_path / ("x" * 60)
    deep.mkdir()
    monkeypatch.setenv(engine_sockets.VARIABLE, "")
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    found = own_folder()
    assert found is not None
    bound(found / ("n" * 36)).close()
    remove_folder(found)
    assert list(deep.iterdir()) == []
    monkeypatch.setattr(engine_sockets, "_SHORT", str(tmp_path / "missing"))
    with pytest.raises(HeadwayError, match=r"set TMPDIR to a folder that exists, of at most 45 bytes$"):
        own_folder()
    assert list(deep.iterdir()) == []


def test_the_process_that_outlives_a_killed_server_removes_a_folder_with_what_is_in_it(folder: Path) -> None:
    """And a file as ever."""
    bound(folder / "dead").close()
    assert orphan_killer.below(str(folder)) == [str(folder / "dead")]
    assert orphan_killer.below(str(folder / "dead")) == []
