"""A real fleet on Ray Serve: real servers on the tiny model. Run by `make fleet-test`, in the environment with Ray."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest
import requests

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


def test_a_client_that_leaves_ends_its_request_on_the_server(two: FleetProcess) -> None:
    """Through front and replica: the server counts it as cancelled."""
    two.wait_for(2)
    before = two.total("headway_outcomes_total", outcome="cancelled_running")
    asked = {"model": "tiny", "prompt": "a", "max_tokens": 1900, "ignore_eos": True, "stream": True}
    with requests.post(f"{two.url}/v1/completions", json=asked, stream=True, timeout=60) as answer:
        assert next(answer.iter_lines()).startswith(b"data: ")
    wait_until(lambda: two.total("headway_outcomes_total", outcome="cancelled_running") > before, "it was cancelled")


def test_the_front_passes_on_inference_alone(two: FleetProcess) -> None:
    """The admin API and the metrics of the servers are closed there, and a client cannot choose its class."""
    for path in ("/metrics", "/headway/v1/status", "/docs", "/v1"):
        assert requests.get(two.url + path, timeout=60).status_code == requests.codes.not_found
    assert requests.get(f"{two.url}/headway/readyz", timeout=60).json()["ready"]
    headers = {"x-headway-class": "realtime", "x-headway-tenant": "other"}
    asked = {"model": "tiny", "prompt": "a", "max_tokens": 1}
    answer = requests.post(f"{two.url}/v1/completions", json=asked, headers=headers, timeout=60)
    assert answer.headers["x-headway-class"] == "normal"


@pytest.mark.parametrize("victim", ["replica", "server"])
def test_no_request_is_lost_or_answered_twice_when_a_replica_is_killed(two: FleetProcess, victim: str) -> None:
    """Under a load with a queue: only streams that have begun are cut, with an error event; another replica comes."""
    two.wait_for(2)
    name = two.ready()[0]
    process = two.replica_process(name)
    below = process.children(recursive=True)
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
    assert psutil.wait_procs(below, timeout=60)[1] == [], "processes of the server have outlived it"
