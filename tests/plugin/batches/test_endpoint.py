"""The routes of files and batches: OpenAI's objects, errors that name what is wrong, and tenants that do not meet."""

from __future__ import annotations

import errno
import os
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from batch_server import ACME, CHAT, ZENITH, Engine, requests, serving
from starlette.types import Receive, Scope, Send

from headway.api_errors import answer
from headway.batches import BatchRoutes
from headway.batches.call import Call
from headway.batches.upload import Upload
from headway.http.access.identity import IDENTITY, TRUSTED, sender_of


async def test_the_sdk_runs_a_batch(tmp_path: Path) -> None:
    """As its documents show: upload, create, wait, read the output, list, delete."""
    async with (
        serving(tmp_path, Engine()) as server,
        openai.AsyncOpenAI(
            base_url="http://headway/v1",
            api_key=ACME,
            max_retries=0,
            http_client=httpx2.AsyncClient(transport=httpx2.ASGITransport(app=server.app)),
        ) as client,
    ):
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
        for path in ("/v1/files", "/v1/batches", f"/v1/files?after={mine}"):
            assert (await server.ask("GET", path, ZENITH)).json()["data"] == []
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
    ],
)  # fmt: skip
async def test_a_wrong_upload_is_refused_and_leaves_nothing(tmp_path: Path, form: Any, param: str) -> None:
    async with serving(tmp_path, Engine()) as server:
        reply = await server.ask("POST", "/v1/files", **form)
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
    assert list((tmp_path / "files").iterdir()) == []


async def test_the_sizes_of_files_are_bounded(tmp_path: Path) -> None:
    """That of one, and that of all together."""
    bounds = {"HEADWAY_BATCH_FILE_BYTES": "200000", "HEADWAY_BATCH_BYTES": "150000"}
    async with serving(tmp_path, Engine(), **bounds) as server:
        form: Any = {"data": {"purpose": "batch"}, "files": {"file": b"x" * 400_000}}
        reply = await server.ask("POST", "/v1/files", **form)
        assert (reply.status_code, reply.json()["error"]["code"]) == (413, "body_too_large")
        await server.upload(b"x" * 180_000)
        reply = await server.ask("POST", "/v1/files", data={"purpose": "batch"}, files={"file": b"x"})
        assert (reply.status_code, reply.json()["error"]["code"]) == (507, "storage_full")
        assert reply.headers["x-should-retry"] == "false"
    assert len(list((tmp_path / "files").iterdir())) == 1


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
