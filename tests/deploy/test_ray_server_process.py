"""The server of a replica, where it does not start; all else is tested with a real fleet."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from headway_fleet.server_process import ServerError, ServerProcess

pytestmark = pytest.mark.slow


async def test_a_server_that_cannot_start_is_said_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    """Its log says why; Serve then tries twice more."""
    log_path = tmp_path / "server.log"
    server = ServerProcess([str(tmp_path / "no-model")], {}, "127.0.0.1", log_path)
    with pytest.raises(ServerError, match="ended with 2 before it was ready"):
        await server.start(within_s=120.0)
    assert not server.alive
    assert "no-model" in log_path.read_text()


async def test_a_server_that_does_not_become_ready_in_time_is_ended(tmp_path: Path) -> None:
    """No process is left that would hold a GPU."""
    server = ServerProcess([str(tmp_path)], {}, "127.0.0.1", tmp_path / "server.log")
    before = set(psutil.Process().children(recursive=True))
    with pytest.raises(ServerError, match="was not ready"):
        await server.start(within_s=0.01)
    assert set(psutil.Process().children(recursive=True)) <= before
