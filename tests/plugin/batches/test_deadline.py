"""The deadline of a batch while other classes ask for twice what the seats can do: the real runner, queue and pace.

On virtual time, with the disk's work done at once. The answers have three tokens, a second each.
"""

from __future__ import annotations

import asyncio
import tomllib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asgi_client import CHAT, posted
from batch_server import request
from generating_site import GeneratingSite
from small_presets import BUNDLED
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from tiers import long_form
from virtual_time import now_s, on_virtual_time

from headway.batches import Batches, BatchRunner, runner, service
from headway.batches.objects import Batch, Status
from headway.batches.pace import Pace
from headway.http.access.identity import IDENTITY, SENDER, Identity, Sender
from headway_policies import Preset
from headway_policies.entitlement import Entitlement
from headway_policies.preset.extends import merged

SEATS, BODY = 2, {"max_tokens": 3}
PER_S = SEATS / BODY["max_tokens"]
WINDOW = ("5m", 300)
FIXED = f'[batching]\nseats = {SEATS}\n[limit]\npolicy = "fixed"\nmemory_aware = false'


class Site(GeneratingSite):
    """Ends a request when its client leaves, as vLLM's routes do."""

    async def generate(self, request: Request) -> Response:
        await request.body()
        answer = asyncio.create_task(super().generate(request))
        left = asyncio.create_task(request.receive())
        await asyncio.wait({answer, left}, return_when=asyncio.FIRST_COMPLETED)
        left.cancel()
        if not answer.done():
            answer.cancel()
            with suppress(asyncio.CancelledError):
                await answer
            return Response()
        return answer.result()


class World:
    """A server with the batches of the tenant ``acme``, and the others; ``classes`` counts the lines by their class."""

    def __init__(self, folder: Path) -> None:
        table = tomllib.loads((BUNDLED / "balanced.toml").read_text(encoding="utf-8"))
        preset = Preset.model_validate(merged(table, tomllib.loads(FIXED)))
        found = Batches.from_environment({"HEADWAY_BATCH_DIR": str(folder)})
        assert found is not None
        self.site, self.batches, self.classes = Site(preset), found, Counter[str]()
        self.runner = BatchRunner(found, self._call, lambda: SEATS, lambda: preset)

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.classes[dict(scope["headers"])[b"x-headway-class"].decode()] += 1
        await self._as(scope[SENDER].tenant)(scope, receive, send)

    def _as(self, tenant: str) -> Callable[[Scope, Receive, Send], Any]:
        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            scope[IDENTITY] = Identity(Entitlement(tenant))
            await self.site.app(scope, receive, send)

        return call

    async def overload(self, class_name: str) -> None:
        """Ask for twice what the seats can do, for ever."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(posted(self._as("others"), BODY, x_headway_class=class_name))
                await asyncio.sleep(0.5 / PER_S)

    async def batch(self, lines: int) -> Batch:
        """A batch of so many lines, at its end."""
        file = await self.batches.add_file("file-1", "acme", "in.jsonl", 1)
        text = b"".join(request(number, body=BODY) for number in range(lines))
        self.batches.folder.file(file.id).write_bytes(text)
        batch = await self.batches.add_batch(Sender("acme"), file, CHAT, WINDOW, None)
        async with asyncio.timeout(2 * WINDOW[1]):
            while not batch.ended:  # noqa: ASYNC110 - nothing sets an event for it
                await asyncio.sleep(1)
        return batch


@pytest.fixture(autouse=True)
def _virtual(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(work: Callable[..., Any], *args: Any, **named: Any) -> Any:
        return work(*args, **named)

    monkeypatch.setattr(Batches, "disk", staticmethod(at_once))
    monkeypatch.setattr(asyncio, "to_thread", at_once)
    clock = SimpleNamespace(
        time=lambda: 1e9 + now_s(), monotonic=now_s, CLOCK_BOOTTIME=7, clock_gettime=lambda which: now_s()
    )
    for module in (runner, service):
        monkeypatch.setattr(module, "time", clock)


@pytest.mark.parametrize(
    ("overloaded", "lines", "raised", "ends"),
    [
        (("normal",), 50, True, Status.COMPLETED), (("realtime", "normal"), 20, True, Status.COMPLETED),
        pytest.param(("normal",), 50, False, Status.EXPIRED, marks=long_form("the two others show the end in time")),
    ],
    ids=["normal", "realtime and normal", "never raised"],
)  # fmt: skip
@on_virtual_time
async def test_a_batch_makes_its_window_while_others_overload(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    overloaded: tuple[str, ...],
    lines: int,
    raised: bool,
    ends: Status,
) -> None:
    """The ladder sheds the least urgent class; a late batch has its tenant's share of the default one, in time."""
    if not raised:
        monkeypatch.setattr(Pace, "judge", lambda *_: False)
    world = World(tmp_path)
    tasks = [asyncio.create_task(world.overload(name)) for name in overloaded]
    await asyncio.sleep(30)
    tasks.append(asyncio.create_task(world.runner.run()))
    batch = await world.batch(lines)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    world.batches.close()
    assert (batch.status, batch.total) == (ends, lines)
    assert world.classes["batch"] > 0
    assert (world.classes["normal"] > 0) is raised
