"""A real fleet on Ray Serve: real servers on the tiny model. Run by `make fleet-test`, in the environment with Ray."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

pytest.importorskip("ray.serve", reason="Ray is not installed: make fleet-test installs it")

from fleet_process import SEATS, START_S, FleetProcess, Load, accounted
from running_server import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture(scope="module")
def two(real_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetProcess]:
    """Two replicas, always."""
    with FleetProcess(tmp_path_factory.mktemp("two"), replicas=2, most=2) as fleet:
        yield fleet


def test_concurrent_requests_are_spread_over_the_replicas(two: FleetProcess) -> None:
    """No replica gets more than three fifths of the requests of a steady load."""
    two.wait_for(2)
    with Load(two.url, 2 * SEATS) as clients:
        wait_until(lambda: clients.ends.total() >= 40, "40 requests have ended", START_S)
    accounted(clients)
    assert clients.ends == {"whole": clients.begun}, clients.odd
    assert set(clients.replicas) == set(two.servers())
    assert max(clients.replicas.values()) <= 0.6 * clients.replicas.total(), clients.replicas


@pytest.mark.parametrize("victim", ["replica", "server"])
def test_no_request_is_lost_or_answered_twice_when_a_replica_is_killed(two: FleetProcess, victim: str) -> None:
    """Under a load with a queue: only streams that have begun are cut, with an error event; another replica comes."""
    two.wait_for(2)
    name = two.ready()[0]
    process = two.replica_process(name)
    if victim == "server":
        process = next(one for one in process.children() if "serve" in one.cmdline())
    with Load(two.url, 5 * SEATS) as clients:
        wait_until(lambda: clients.replicas[name] >= SEATS, f"{name} has answered", START_S)
        process.kill()
        killed_at = clients.ends.total()
        wait_until(lambda: name not in two.ready() and len(two.ready()) == 2, "it has been replaced", START_S)
        assert clients.ends.total() > killed_at
    accounted(clients)
    assert set(clients.ends) <= {"whole", "cut"}, (clients.ends, clients.odd)
    assert clients.ends["cut"] <= SEATS
    assert not psutil.pid_exists(process.pid)
