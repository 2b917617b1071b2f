"""A real fleet on Ray Serve whose number of replicas follows the load. Run by `make fleet-test`."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("ray.serve", reason="Ray is not installed: make fleet-test installs it")

from fleet_process import SEATS, START_S, FleetProcess, Load, accounted
from running_server import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.slow]


def test_the_number_of_replicas_follows_the_load_and_none_is_cut_off(real_engine: None, tmp_path: Path) -> None:
    """From one to two under load, and the second one takes part of it; back to one while both have requests."""
    scaling = {"start_s": 10.0, "down_after_s": 5.0, "down_step_s": 1.0, "target_ratio": 0.7}
    with FleetProcess(tmp_path, replicas=1, most=2, scaling=scaling) as fleet:
        with Load(fleet.url, 3 * SEATS) as heavy:
            fleet.wait_for(2)
            second = set(fleet.servers()) - set(heavy.replicas)
            wait_until(lambda: second <= set(heavy.replicas), "the second replica has answered", START_S)
        with Load(fleet.url, 2, tokens=300) as light:
            wait_until(lambda: len(fleet.servers()) == 1, "one replica is left", START_S)
        assert len(light.replicas) == 2, "the replica that was removed had none of these requests"
        for clients in (heavy, light):
            accounted(clients)
            assert clients.ends == {"whole": clients.begun}, clients.odd
        log = "".join(path.read_text(errors="replace") for path in tmp_path.glob("*.log"))
        assert "the replica is removed" in log
