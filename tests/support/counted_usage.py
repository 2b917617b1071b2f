"""What the accounting of a server has summed up, beside the counters of vLLM in the same process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from running_server import RunningServer, wait_until

from headway_policies.usage import SERVER

#: The counters of vLLM, by the figure of the accounting that is to be the same.
COUNTERS = {
    "prompt_tokens": "vllm:prompt_tokens_total",
    "cached_tokens": "vllm:prompt_tokens_cached_total",
    "output_tokens": "vllm:generation_tokens_total",
}


def usage_of(server: RunningServer, query: str = "") -> dict[str, Any]:
    """An answer of the accounting, for all of its time: the clock of the server may have jumped."""
    until = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    answer = server.admin("GET", f"usage?since=1d&until={until}&{query}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def assert_counted(server: RunningServer, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """Since the server started the sums over all tenants are vLLM's own counters, and the requests those of the desk.

    A server at rest; returns the sums. ``before`` has those of the servers before it on the same database.
    """
    wait_until(lambda: _rests(server), "no call is left in the engine", 60)
    found, scrape = usage_of(server), server.scrape()
    assert found["lost"] == found["waiting"] == 0
    was = before or {"total": dict.fromkeys(found["total"], 0), "rows": []}
    of_vllm = {name: scrape(counter) for name, counter in COUNTERS.items()}
    assert {name: found["total"][name] - was["total"][name] for name in COUNTERS} == of_vllm
    assert _of_clients(found) - _of_clients(was) == scrape("headway_outcomes_total")
    assert found["total"]["refused"] - was["total"]["refused"] == scrape("headway_refusals_total")
    return found


def _of_clients(found: dict[str, Any]) -> int:
    """The requests that are not the server's own."""
    return sum(row["requests"] for row in found["rows"] if row["group"]["tenant"] != SERVER)


def _rests(server: RunningServer) -> bool:
    """Whether the engine has confirmed the end of every sequence."""
    status = server.status()
    return not (status["queued"] or status["in_flight"] or status["seats_taken"] or status["engine"]["running"])
