"""The routes of files and batches: OpenAI's objects, errors that name what is wrong, and tenants that do not meet."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from batch_server import ACME, CHAT, ZENITH, Engine, Server, requests, serving
from starlette.types import Receive, Scope, Send

from headway.api_errors import answer
from headway.batches import BatchRoutes, service
from headway.batches.call import Call
from headway.batches.upload import Upload
from headway.http.access.identity import IDENTITY, TRUSTED, sender_of

#: A form around a file, with the boundary B.
FORM = (
    b'--B\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    b'--B\r\nContent-Disposition: form-data; name="file"; filename="in.jsonl"\r\n\r\n',
    b"\r\n--B--\r\n",
)


def _sdk(server: Server) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url="http://headway/v1",
        api_key=ACME,
        max_retries=0,
        http_client=httpx2.AsyncClient(transport=httpx2.ASGITransport(app=server.app)),
    )


async def test_the_sdk_runs_a_batch(tmp_path: Path) -> None:
    """As its documents show: upload, create, wait, read the output, list, delete."""
    async with serving(tmp_path, Engine()) as server, _sdk(server) as client:
        file = await client.files.create(file=("in.jsonl", requests(5)), purpose="batch")
        assert (file.filename, file.bytes, file.purpose) == ("in.jsonl", len(requests(5)), "batch")
        batch = await client.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        await server.ended({"id": batch.id})
        batch = await client.batches.retrieve(batch.id)
        assert (batch.status, batch.request_counts and batch.request_counts.completed) == ("completed", 5)
        assert batch.in_progress_at is not None
        assert batch.completed_at is not None
        assert batch.output_file_id is not None
        content = await client.files.content(batch.output_file_id)
        assert len(content.text.splitlines()) == 5
        assert [one.id async for one in client.batches.list(limit=1)] == [batch.id]
        assert {one.id async for one in client.files.list(limit=1)} == {file.id, batch.output_file_id}
        assert [one.id async for one in client.files.list(purpose="batch")] == [file.id]
        assert (await client.files.delete(file.id)).deleted
        with pytest.raises(openai.NotFoundError):
            await client.files.retrieve(file.id)


async def test_files_expire_when_their_client_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upload, and the output of a batch; the batch itself stays, as do files of which nothing was said."""
    right, steady, passed_s = time.time, service._passed_s, 0
    monkeypatch.setattr(time, "time", lambda: right() + passed_s)
    monkeypatch.setattr(service, "_passed_s", lambda: steady() + passed_s)
    hour, two = ({"anchor": "created_at", "seconds": seconds} for seconds in (3600, 7200))
    async with serving(tmp_path, Engine()) as server, _sdk(server) as client:
        kept = await server.upload(requests(1))
        file = await client.files.create(file=requests(1), purpose="batch", expires_after=hour)  # type: ignore[arg-type]
        batch = await client.batches.create(
            input_file_id=file.id,
            endpoint=CHAT,
            completion_window="24h",
            output_expires_after=two,  # type: ignore[arg-type]
        )
        output_id = (await server.ended({"id": batch.id}))["output_file_id"]
        output = await client.files.retrieve(output_id)
        assert (file.expires_at, output.expires_at) == (file.created_at + 3600, output.created_at + 7200)
        for passed_s, there in (  # noqa: B007 - the clocks above read it
            (3500, {kept, file.id, output_id}), (3700, {kept, output_id}), (7300, {kept}),
        ):  # fmt: skip
            await server.batches.tidy()
            assert {one.id async for one in client.files.list()} == there
        assert (await client.batches.retrieve(batch.id)).status == "completed"


async def test_tenants_do_not_meet(tmp_path: Path) -> None:
    """A file or a batch of another tenant is not there, whatever is asked of it."""
    async with serving(tmp_path, Engine()) as server:
        batch = await server.ended(await server.create(requests(2)))
        mine, output = batch["input_file_id"], batch["output_file_id"]
        for method, path in [
            ("GET", f"/v1/files/{mine}"), ("GET", f"/v1/files/{output}/content"), ("DELETE", f"/v1/files/{mine}"),
            ("GET", f"/v1/batches/{batch['id']}"), ("POST", f"/v1/batches/{batch['id']}/cancel"),
        ]:  # fmt: skip
            assert (await server.ask(method, path, ZENITH)).status_code == 404, (method, path)
        wanted = {"input_file_id": mine, "endpoint": CHAT, "completion_window": "24h"}
        assert (await server.ask("POST", "/v1/batches", ZENITH, json=wanted)).status_code == 404
        for path in ("/v1/files", "/v1/batches"):
            assert (await server.ask("GET", path, ZENITH)).json()["data"] == []
        for path in (f"/v1/files?after={mine}", f"/v1/batches?after={batch['id']}", "/v1/files?after=file-none"):
            reply = await server.ask("GET", path, ZENITH)
            assert (reply.status_code, reply.json()["error"]["param"]) == (400, "after")
        running = await server.create(requests(1))
        assert running["id"] in server.batches.open
        assert (await server.ask("GET", f"/v1/batches/{running['id']}", ZENITH)).status_code == 404


async def test_a_tenant_with_a_longer_name_than_any_request_may_have_is_refused(tmp_path: Path) -> None:
    """Cut off, its name could be that of another tenant of the same proxy."""
    async with serving(tmp_path, Engine()) as server:
        reply = await server.ask("GET", "/v1/files", headers={"x-headway-tenant": "a" * 129})
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "header_too_long")


@pytest.mark.parametrize("name", [b"", b"team", "équipe".encode(), b"\xe9quipe"])
async def test_a_line_names_its_tenant_as_the_trusted_proxy_did(name: bytes) -> None:
    """Byte for byte, so that its lines belong to the tenant that its files do."""
    named: list[bytes] = []

    async def app(scope: Scope, _: Receive, send: Send) -> None:
        named.extend(value for key, value in scope["headers"] if key == b"x-headway-tenant")
        await answer(send, HTTPStatus.OK, b"{}", ())

    sender = sender_of({IDENTITY: TRUSTED, "headers": [(b"x-headway-tenant", name)]})
    assert await Call(app).ask(CHAT, b"{}", sender, "batch") is not None
    assert named == [name]


@pytest.mark.parametrize("file_id", ["..", "../lock", "%2e%2e%2flock", "lock", "batches.db", "*", "' OR 1=1"])
async def test_an_id_is_never_a_path(tmp_path: Path, file_id: str) -> None:
    async with serving(tmp_path, Engine()) as server:
        for path in (f"/v1/files/{file_id}", f"/v1/files/{file_id}/content"):
            assert (await server.ask("GET", path)).status_code == 404
        wanted = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"}
        reply = await server.ask("POST", "/v1/batches", json=wanted)
        assert (reply.status_code, reply.json()["error"]["param"]) == (404, "input_file_id")


@pytest.mark.parametrize(
    ("changed", "param"),
    [
        ({"endpoint": "/v1/nothing"}, "endpoint"), ({"completion_window": "soon"}, "completion_window"),
        ({"completion_window": "90d"}, "completion_window"), ({"metadata": {"a": 1}}, None), ({"endpoint": None}, None),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 3599}}, None),
    ],
)  # fmt: skip
async def test_a_wrong_batch_is_refused(tmp_path: Path, changed: dict[str, Any], param: str | None) -> None:
    async with serving(tmp_path, Engine()) as server:
        wanted = {"input_file_id": await server.upload(b"x"), "endpoint": CHAT, "completion_window": "24h"}
        reply = await server.ask("POST", "/v1/batches", json=wanted | changed)
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
        assert not server.batches.open


@pytest.mark.parametrize(
    ("form", "param"),
    [
        ({"data": {"purpose": "fine-tune"}, "files": {"file": b"x"}}, "purpose"),
        ({"data": {"purpose": "batch"}, "files": {"file": b""}}, "file"),
        ({"files": {"other": b"x"}}, "file"), ({"content": b"x"}, "content-type"),
        ({"data": {"purpose": "b" * 5000}, "files": {"file": b"x"}}, "purpose"),
        ({"files": [("file", b"x"), ("file", b"y")]}, "file"),
        *(
            ({"data": {"purpose": "batch", **expires}, "files": {"file": b"x"}}, "expires_after")
            for expires in (
                {"expires_after[seconds]": "7200"}, {"expires_after[anchor]": "created_at"},
                {"expires_after[anchor]": "created_at", "expires_after[seconds]": "2592001"},
                {"expires_after[anchor]": "used_at", "expires_after[seconds]": "7200"},
            )
        ),
    ],
)  # fmt: skip
async def test_a_wrong_upload_is_refused_and_leaves_nothing(tmp_path: Path, form: Any, param: str) -> None:
    async with serving(tmp_path, Engine()) as server:
        reply = await server.ask("POST", "/v1/files", **form)
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
    assert list((tmp_path / "files").iterdir()) == []


async def test_the_sizes_of_files_are_bounded(tmp_path: Path) -> None:
    """That of one, and that of all together."""
    bounds = {
        "HEADWAY_BATCH_FILE_BYTES": "200000", "HEADWAY_BATCH_BYTES": "150000", "HEADWAY_BATCH_TENANT_BYTES": "300000",
    }  # fmt: skip
    async with serving(tmp_path, Engine(), **bounds) as server:
        form: Any = {"data": {"purpose": "batch"}, "files": {"file": b"x" * 400_000}}
        reply = await server.ask("POST", "/v1/files", **form)
        assert (reply.status_code, reply.json()["error"]["code"]) == (413, "body_too_large")
        await server.upload(b"x" * 149_999)
        form["files"]["file"] = b"xx"
        reply = await server.ask("POST", "/v1/files", **form)
        assert (reply.status_code, reply.json()["error"]["code"]) == (507, "storage_full")
        assert reply.headers["x-should-retry"] == "false"
    assert len(list((tmp_path / "files").iterdir())) == 1


async def test_a_tenant_fills_its_own_part(tmp_path: Path) -> None:
    """Half of all bytes, to the byte; the other tenant still has the rest, and what is deleted is free again."""
    async with serving(tmp_path, Engine(), HEADWAY_BATCH_BYTES="400000") as server:
        first = await server.upload(b"x" * 150_000)
        form: Any = {"data": {"purpose": "batch"}, "files": {"file": b"x" * 50_001}}
        reply = await server.ask("POST", "/v1/files", **form)
        assert (reply.status_code, reply.json()["error"]["code"]) == (413, "tenant_storage_full")
        assert reply.headers["x-should-retry"] == "false"
        await server.upload(b"x" * 50_000)
        assert (await server.ask("POST", "/v1/files", **form)).status_code == 413
        await server.upload(b"x" * 100_000, ZENITH)
        await server.ask("DELETE", f"/v1/files/{first}")
        await server.upload(b"x" * 150_000)
    assert len(list((tmp_path / "files").iterdir())) == 3


async def test_uploads_at_once_share_the_part_of_their_tenant(tmp_path: Path) -> None:
    """However many begin while there is room, what they bring is within it; and those refused leave it free."""
    async with serving(tmp_path, Engine(), HEADWAY_BATCH_TENANT_BYTES="200000") as server:
        form: Any = {"data": {"purpose": "batch"}, "files": {"file": b"x" * 150_000}}
        replies = await asyncio.gather(*(server.ask("POST", "/v1/files", **form) for _ in range(8)))
        assert {reply.status_code for reply in replies} <= {200, 413}
        sizes = [path.stat().st_size for path in (tmp_path / "files").iterdir()]
        assert sum(sizes) <= 200_000
        await server.upload(b"x" * (200_000 - sum(sizes)))


@pytest.mark.parametrize(
    ("begun", "other", "rest", "statuses"),
    [(150_000, 60_000, 0, (200, 413)), (100_000, 60_000, 60_000, (413, 200)), (100_000, 60_000, 40_000, (200, 200))],
    ids=["before the other", "after the other", "both fit"],
)
async def test_what_is_on_its_way_counts(
    tmp_path: Path, begun: int, other: int, rest: int, statuses: tuple[int, int]
) -> None:
    """An upload that began with room enough may find that it is taken, as may one that comes meanwhile."""
    came, goes_on = asyncio.Event(), asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield FORM[0] + b"x" * begun
        came.set()
        await goes_on.wait()
        yield b"x" * rest + FORM[1]

    async with serving(tmp_path, Engine(), HEADWAY_BATCH_TENANT_BYTES="200000") as server:
        kind = {"content-type": "multipart/form-data; boundary=B"}
        first = asyncio.create_task(server.ask("POST", "/v1/files", content=slowly(), headers=kind))
        await came.wait()
        form: Any = {"data": {"purpose": "batch"}, "files": {"file": b"x" * other}}
        second = await server.ask("POST", "/v1/files", **form)
        goes_on.set()
        assert ((await first).status_code, second.status_code) == statuses


async def test_the_files_of_a_tenant_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_TENANT_FILES", 2)
    async with serving(tmp_path, Engine()) as server:
        await server.upload(b"x")
        await server.upload(b"x")
        reply = await server.ask("POST", "/v1/files", data={"purpose": "batch"}, files={"file": b"x"})
        assert (reply.status_code, reply.json()["error"]["code"]) == (413, "tenant_storage_full")
        await server.upload(b"x", ZENITH)


async def test_an_upload_on_a_full_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(upload: Upload, chunk: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Upload, "feed", full)
    async with serving(tmp_path, Engine()) as server:
        reply = await server.ask("POST", "/v1/files", data={"purpose": "batch"}, files={"file": b"x"})
        assert (reply.status_code, reply.json()["error"]["code"]) == (507, "storage_full")


async def test_a_file_that_a_batch_reads_is_kept(tmp_path: Path) -> None:
    engine = Engine()
    engine.takes_s = 30
    async with serving(tmp_path, engine) as server:
        batch = await server.create(requests(1))
        path = f"/v1/files/{batch['input_file_id']}"
        reply = await server.ask("DELETE", path)
        assert (reply.status_code, reply.json()["error"]["code"]) == (409, "file_in_use")
        await server.ask("POST", f"/v1/batches/{batch['id']}/cancel")
        await server.ended(batch)
        assert (await server.ask("DELETE", path)).status_code == 200
    assert list((tmp_path / "files").iterdir()) == []


async def test_without_a_folder_the_routes_are_off() -> None:
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=BatchRoutes(Engine(), None)), base_url="http://headway"
    ) as client:
        reply = await client.get("/v1/batches")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "batches_off")
    assert "HEADWAY_BATCH_DIR" in reply.text
