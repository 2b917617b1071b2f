"""Bounds of what the admin API takes: bodies, queries, tokens and the time of an order."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from admin_api import VIEWER, admin_api, bearer, put
from virtual_time import on_virtual_time

from headway.api.routes import Role
from headway.errors import HeadwayError
from headway.http.admin.commands import BODY_WITHIN_S
from headway.http.admin.tokens import MAX_TOKEN_CHARS, Tokens


@pytest.mark.parametrize("token", ["short", "x" * 31, "with space " * 4, "t\u00f6ken" * 9, "x" * 40 + "\nx"])
def test_a_weak_token_is_refused_without_showing_it(token: str) -> None:
    """At least 32 printable characters; the issue names the variable, not the token."""
    with pytest.raises(HeadwayError, match="HEADWAY_ADMIN_TOKEN") as caught:
        Tokens.from_environment({"HEADWAY_ADMIN_TOKEN": token})
    assert token not in str(caught.value)


async def test_a_wrong_key_is_reported_by_its_beginning() -> None:
    """The answer to a body of 15 kB is no body of 15 kB."""
    async with admin_api() as (client, _):
        answer = await put(client, json={"name": "latency", "k" * 15_000: 1})
        assert (answer.status_code, len(answer.content) < 500) == (422, True)


@pytest.mark.parametrize(("query", "status"), [("a" * 1001, 414), ("a" * 1000, 200), ("%ff", 200)])
async def test_a_query_has_a_bound(query: str, status: int) -> None:
    """Beyond it the answer is 414."""
    async with admin_api() as (client, _):
        assert (await client.get(f"/headway/v1/status?{query}", headers=bearer(VIEWER))).status_code == status


async def test_a_query_that_is_no_text_does_no_harm() -> None:
    """A web server may hand on any bytes: with a token it is an answer, without one a refusal."""
    async with admin_api() as (client, _):
        app: Any = client._transport.app  # type: ignore[attr-defined]  # the one under test
        for headers, status in (([], 401), ([(b"authorization", f"Bearer {VIEWER}".encode())], 200)):
            sent: list[Any] = []

            async def send(message: Any, sent: list[Any] = sent) -> None:
                sent.append(message)

            scope = {"type": "http", "method": "GET", "path": "/headway/v1/status", "root_path": "", "scheme": "http",
                     "query_string": b"\xff", "headers": headers, "client": None, "server": ("x", 1)}  # fmt: skip
            await app(scope, None, send)
            assert sent[0]["status"] == status


@on_virtual_time
async def test_an_order_that_drips_is_ended() -> None:
    """After ten seconds in all, 408, and a line in the audit: a body that never ends holds nothing for ever."""

    async def drips() -> AsyncIterator[bytes]:
        yield b'{"name":'
        while True:
            await asyncio.sleep(1)
            yield b" "

    async with admin_api() as (client, control):
        began_s = asyncio.get_running_loop().time()
        answer = await put(client, json=None, content=drips(), headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.headers["connection"]) == (408, "close")
        assert asyncio.get_running_loop().time() - began_s == BODY_WITHIN_S
        assert "10 s" in control.audit.entries(1)[0].result


def test_a_token_has_a_longest_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """512 characters: a longer one is refused at the start, a longer header before it is hashed."""
    longest = "x" * MAX_TOKEN_CHARS
    tokens = Tokens.from_environment({"HEADWAY_ADMIN_TOKEN": longest})
    assert tokens.role(f"Bearer {longest}") is Role.OPERATOR
    assert tokens.role(f"Bearer {' ' * 100}{longest}") is None
    assert tokens.role(f"Bearer {longest}x") is None
    digested: list[str] = []
    monkeypatch.setattr("headway.http.admin.tokens._digest", lambda token: digested.append(token) or b"")
    assert tokens.role("Bearer " + "x" * 30_000) is None
    assert digested == []
    with pytest.raises(HeadwayError, match="512"):
        Tokens.from_environment({"HEADWAY_ADMIN_TOKEN": longest + "x"})


def test_a_token_file_is_a_regular_one_of_a_few_bytes(tmp_path: Path) -> None:
    """A pipe would be waited for, and a device read, without end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_text("x" * 20_000)
    for path, why in ((tmp_path / "pipe", "not a regular file"), (tmp_path / "large", "larger than 16384 bytes")):
        with pytest.raises(HeadwayError, match=why):
            Tokens.from_environment({"HEADWAY_ADMIN_TOKEN_FILE": str(path)})
