"""A real fleet on Ray Serve whose number of replicas follows the load. Run by `make fleet-test`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("ray.serve", reason="Ray is not installed: make fleet-test installs it")

from fleet_process import SEATS, START_S, FleetProcess, Load, accounted
from running_server import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture(scope="module")
def fleet(real_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetProcess]:
    """One replica or two, by the load."""
    scaling = {"start_s": 10.0, "down_after_s": 5.0, "down_step_s": 1.0, "target_ratio": 0.7}
    with FleetProcess(tmp_path_factory.mktemp("one"), replicas=1, most=2, scaling=scaling) as one:
        yield one


def test_the_number_of_replicas_follows_the_load_and_none_is_cut_off(fleet: FleetProcess) -> None:
    """From one to two under load, and the second one takes part of it; back to one while both have requests."""
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
    log = "".join(path.read_text(errors="replace") for path in fleet.folder.glob("*.log"))
    assert "the replica is removed" in log


def test_a_new_version_is_warm_before_the_old_one_goes(fleet: FleetProcess) -> None:
    """Of the only replica there is, while clients ask: each of them is served, by the old one or by the new one."""
    fleet.wait_for(1)
    old = set(fleet.servers())
    with Load(fleet.url, 2) as clients:
        wait_until(lambda: old <= set(clients.replicas), "the old one has answered", START_S)
        fleet.deploy_again()
        wait_until(lambda: set(clients.replicas) > old, "the new one has answered", START_S)
        wait_until(lambda: len(fleet.servers()) == 1, "the old one is gone", START_S)
    accounted(clients)
    assert clients.ends == {"whole": clients.begun}, clients.odd
    assert not old & set(fleet.servers())
