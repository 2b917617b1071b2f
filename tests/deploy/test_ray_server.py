"""The server of a replica, where it does not start; all else is tested with a real fleet."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from headway_fleet.server import Server, ServerError, addresses
from headway_fleet.settings import FleetSettings

pytestmark = pytest.mark.slow


async def test_a_server_that_cannot_start_is_said_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    """Its log says why; Serve then tries twice more."""
    server = Server(FleetSettings((str(tmp_path / "no-model"),), start_s=120.0, folder=str(tmp_path)), "one")
    with pytest.raises(ServerError, match="ended with 2 before it was ready"):
        await server.start()
    assert not server.alive
    assert "no-model" in (tmp_path / "one.log").read_text()
    assert addresses(tmp_path) == {}


async def test_a_server_that_does_not_become_ready_in_time_is_ended(tmp_path: Path) -> None:
    """No process is left that would hold a GPU."""
    server = Server(FleetSettings((str(tmp_path),), start_s=0.01, folder=str(tmp_path)), "one")
    before = set(psutil.Process().children(recursive=True))
    with pytest.raises(ServerError, match="was not ready"):
        await server.start()
    assert set(psutil.Process().children(recursive=True)) <= before
