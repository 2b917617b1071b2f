"""Soak test without residue: many requests through gate and gateway, in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tiers import LONG, long_form

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "soak.py"
MAX_MIB, MAX_SHORT_MIB = 5.0, 3.0


@pytest.fixture(scope="module")
def soaked() -> dict[str, Any]:
    """What the soak found: 5,000 requests, or a million."""
    sizes = ("--requests", "1000000", "--warm-up", "100000") if LONG else ("--requests", "5000", "--warm-up", "2000")
    done = subprocess.run([sys.executable, SCRIPT, *sizes], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sys.stdout.write(done.stdout)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@long_form("test_gateway_machine has histories of its own, tests/chaos a real server")
def test_every_request_ended_once_as_its_client_saw_it(soaked: dict[str, Any]) -> None:
    """The clients' log and the server's ledger agree; a tenth was cancelled, a twentieth refused."""
    log, ledger = soaked["clients_log"], soaked["ledger"]
    sent = soaked["requests"] + soaked["warm_up"]
    assert sum(log.values()) == sum(ledger.values()) == sent
    in_queue, in_engine = ledger.pop("cancelled_queued"), ledger.pop("cancelled_running")
    assert in_queue + in_engine == log.pop("cancelled") >= 0.1 * sent
    assert min(in_queue, in_engine) >= 0.01 * sent
    assert ledger == log
    assert log["rejected_limit"] >= 0.05 * sent


def test_tasks_descriptors_timers_and_series_are_back_where_they_were(soaked: dict[str, Any]) -> None:
    """At rest there is as much of each as before, and nothing is under way. The desk's one timer may have come."""
    before, after = ({**soaked[when]} for when in ("rest_before", "rest_after"))
    assert max(before.pop("timers"), after.pop("timers")) <= 1
    assert after == before
    assert {soaked["rest_after"][what] for what in ("open_calls", "tickets", "running")} == {0}


def test_memory_does_not_grow_with_the_number_of_requests(soaked: dict[str, Any]) -> None:
    """At most 5 MiB for 100,000 requests, at the upper end of the fit; in the short form, which fills records, 3 MiB in
    all."""
    first_mib, last_mib = soaked["rss_mib"]
    assert last_mib - first_mib <= MAX_SHORT_MIB or LONG
    assert soaked["growth_mib_at_most"] <= MAX_MIB or not LONG
