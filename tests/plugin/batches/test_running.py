"""A real `headway route` with a folder of batches, killed in the middle of one, which its status has shown."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import requests
from running_router import RunningRouter, StandIn
from running_server import Scrape, wait_until
from tiers import long_form

NUMBER = 60
COMPLETIONS = "/v1/completions"


@pytest.mark.slow
@long_form("test_batches starts another server after a torn line, test_races wherever it is stopped")
def test_a_killed_server_goes_on_where_its_output_ends(tmp_path: Path) -> None:
    """Each line is in the output once; what was written before is not run again."""
    with StandIn(step_s=0.02) as instance:
        folder = {"HEADWAY_BATCH_DIR": str(tmp_path / "batches")}
        router = RunningRouter.before(tmp_path / "first.log", [instance.url], "--seats", "4", **folder)
        with router:
            batch = created(router)
            wait_until(lambda: asked(router, batch)["request_counts"]["completed"] >= 5, "some lines are over", 30)
            (shown,) = router.status()["batches"]
            assert (shown["id"], shown["state"], shown["total"]) == (batch, "in_progress", NUMBER)
            assert router.process is not None
            router.process.kill()
            router.process.wait(10)
        files = (tmp_path / "batches/files").iterdir()
        written = custom_ids(next(path for path in files if path.read_bytes().startswith(b'{"id":"batch_req')))
        assert 5 <= len(written) < NUMBER
        again = RunningRouter.before(tmp_path / "second.log", [instance.url], "--seats", "4", **folder)
        with again:
            wait_until(lambda: asked(again, batch)["status"] == "completed", "the batch is over", 60)
            done = asked(again, batch)
            output = requests.get(f"{again.url}/v1/files/{done['output_file_id']}/content", timeout=10).text
            seen = Counter(instance.seen())
            lines = Scrape(requests.get(f"{again.url}/metrics", timeout=10).text)
    assert done["request_counts"] == {"total": NUMBER, "completed": NUMBER, "failed": 0}
    assert lines("headway_batch_lines_total", outcome="completed") == NUMBER - len(written)
    ids = [json.loads(line)["custom_id"] for line in output.splitlines()]
    assert Counter(ids) == {f"r{number}": 1 for number in range(NUMBER)}
    assert written <= set(ids)
    assert {seen[f"prompt {one.removeprefix('r')}"] for one in written} == {1}, "a written line has run again"


def custom_ids(path: Path) -> set[str]:
    """Of the whole lines of an output."""
    whole = path.read_bytes().rpartition(b"\n")[0]
    return {json.loads(line)["custom_id"] for line in whole.splitlines()}


def created(router: RunningRouter) -> str:
    """The id of a new batch."""
    bodies = [{"model": "stand-in", "prompt": f"prompt {number}", "max_tokens": 8} for number in range(NUMBER)]
    lines = [
        json.dumps({"custom_id": f"r{number}", "method": "POST", "url": COMPLETIONS, "body": body})
        for number, body in enumerate(bodies)
    ]
    form: Any = {"data": {"purpose": "batch"}, "files": {"file": ("in.jsonl", "\n".join(lines))}}
    file = requests.post(f"{router.url}/v1/files", **form, timeout=10).json()
    body = {"input_file_id": file["id"], "endpoint": COMPLETIONS, "completion_window": "24h"}
    return str(requests.post(f"{router.url}/v1/batches", json=body, timeout=10).json()["id"])


def asked(router: RunningRouter, batch_id: str) -> dict[str, Any]:
    """The batch as it is now."""
    found: dict[str, Any] = requests.get(f"{router.url}/v1/batches/{batch_id}", timeout=10).json()
    return found
