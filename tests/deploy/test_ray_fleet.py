"""A real fleet on Ray Serve: real servers on the tiny model. Run by `make fleet-test`, in the environment with Ray."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytest.importorskip("ray.serve", reason="Ray is not installed: make fleet-test installs it")

from fleet_process import START_S, Clients, FleetProcess
from running_server import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.slow]

SEATS = 4


@pytest.fixture(scope="module")
def two(real_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetProcess]:
    """Two replicas, always."""
    with FleetProcess(tmp_path_factory.mktemp("two"), replicas=2, most=2) as fleet:
        yield fleet


class Load:
    """Clients in a thread, for as long as the block."""

    def __init__(self, url: str, number: int) -> None:
        self.clients, self._number, self._over = Clients(url), number, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        asyncio.run(self.clients.run(self._number, self._over.is_set))

    def __enter__(self) -> Clients:
        self._thread.start()
        return self.clients

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def accounted(clients: Clients) -> None:
    """Every request that was begun has exactly one end."""
    assert clients.ends.total() == clients.begun, clients.ends


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


def test_the_number_of_replicas_follows_the_load_and_none_is_cut_off(real_engine: None, tmp_path: Path) -> None:
    """From one to two under load, which a warm second server takes part of; back to one, drained, in a lighter load."""
    scaling = {"start_s": 10.0, "down_after_s": 5.0, "down_step_s": 1.0, "target_ratio": 0.7}
    with FleetProcess(tmp_path, replicas=1, most=2, scaling=scaling) as fleet:
        with Load(fleet.url, 3 * SEATS) as heavy:
            fleet.wait_for(2)
            second = set(fleet.servers()) - set(heavy.replicas)
            wait_until(lambda: second <= set(heavy.replicas), "the second replica has answered", START_S)
        with Load(fleet.url, 1) as light:
            wait_until(lambda: len(fleet.servers()) == 1, "one replica is left", START_S)
        for clients in (heavy, light):
            accounted(clients)
            assert clients.ends == {"whole": clients.begun}, clients.odd
        log = "".join(path.read_text(errors="replace") for path in tmp_path.glob("*.log"))
        assert "the replica is removed" in log
