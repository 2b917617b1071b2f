"""Who may call: the token in its header and nothing else, lock-out of addresses with wrong ones, the names of both."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import pytest
from admin_api import OPERATOR, PRESET, STATUS, VIEWER, admin_api, bearer, switch
from virtual_time import on_virtual_time

from headway.audit import AuditFile
from headway.http.access.lockout import MOST_WRONG

WRONG = "nobodys-token-0123456789-0123456789"


@on_virtual_time
async def test_an_address_with_ten_wrong_tokens_is_locked_for_the_rest_of_the_minute() -> None:
    """429 with the seconds that are left, for a right token too: the answers do not tell which one is right."""
    async with admin_api() as (client, control):
        statuses = [(await client.get(STATUS, headers=bearer(f"{WRONG}{number}"))).status_code for number in range(300)]
        assert statuses == [401] * MOST_WRONG + [429] * (300 - MOST_WRONG)
        await asyncio.sleep(20)
        right, wrong = [await client.get(STATUS, headers=bearer(token)) for token in (OPERATOR, WRONG)]
        assert (right.status_code, right.headers["retry-after"]) == (429, "40")
        assert (right.content, right.headers) == (wrong.content, wrong.headers)
        assert right.headers["content-type"] == "application/problem+json"
        refused = await switch(client)
        assert (refused.status_code, control.revision) == (429, 1)
        await asyncio.sleep(float(right.headers["retry-after"]))
        assert (await client.get(STATUS, headers=bearer(OPERATOR))).status_code == 200
        assert (await client.get(STATUS, headers=bearer(WRONG))).status_code == 401


@on_virtual_time
async def test_a_lock_is_that_of_one_address() -> None:
    """Nothing of it is seen elsewhere: it is no way to lock the operator out."""
    async with admin_api("192.0.2.7") as (stranger, _):
        for _ in range(MOST_WRONG + 1):
            locked = await stranger.get(STATUS, headers=bearer(WRONG))
        assert locked.status_code == 429
        stranger._transport.client = ("192.0.2.8", 1)  # type: ignore[attr-defined]  # the same server, another address
        assert (await stranger.get(STATUS, headers=bearer(OPERATOR))).status_code == 200


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1"])
def test_on_the_machine_itself_a_right_token_is_always_taken(address: str) -> None:
    """A local program with an outdated token does not lock the operator's shell out; wrong tokens are locked."""

    @on_virtual_time
    async def run() -> None:
        async with admin_api(address) as (client, _):
            for _ in range(MOST_WRONG + 5):
                last = await client.get(STATUS, headers=bearer(WRONG))
            assert last.status_code == 429
            for token in (OPERATOR, VIEWER):
                assert (await client.get(STATUS, headers=bearer(token))).status_code == 200
            assert (await client.get(STATUS, headers=bearer(WRONG))).status_code == 429

    run()


@on_virtual_time
async def test_a_request_without_a_token_is_no_guess() -> None:
    """A browser or a health check that knows none locks nobody out; neither does a viewer that orders."""
    async with admin_api() as (client, _):
        for _ in range(3 * MOST_WRONG):
            assert (await client.get(STATUS)).status_code == 401
            assert (await switch(client, token=VIEWER)).status_code == 403
        assert (await client.get(STATUS, headers=bearer(OPERATOR))).status_code == 200


@on_virtual_time
async def test_a_flood_of_wrong_tokens_is_few_entries_of_the_audit() -> None:
    """One for those that were compared, one for those that were not, each with its count."""
    async with admin_api() as (client, control):
        for _ in range(300):
            await client.get(STATUS, headers=bearer(WRONG))
        entries = control.audit.entries(500)
        assert [(entry.result, entry.times, entry.address) for entry in entries] == [
            ("refused: locked out", 290, "192.0.2.7"),
            ("refused: no token, or a wrong one", 10, "192.0.2.7"),
        ]


async def test_what_a_browser_adds_by_itself_is_no_credential() -> None:
    """A cookie and the password of Basic: a page of another site orders nothing with what its browser knows."""
    async with admin_api() as (client, control):
        basic = base64.b64encode(f"operator:{OPERATOR}".encode()).decode()
        for sent in (
            {"Cookie": f"token={OPERATOR}; Authorization=Bearer {OPERATOR}"},
            {"Authorization": f"Basic {basic}"},
        ):
            headers = {"If-Match": "*", "Origin": "http://page.example", **sent}
            assert (await client.put(PRESET, headers=headers, json={"name": "latency"})).status_code == 401
        assert control.revision == 1


@on_virtual_time
async def _callers_in_the_file(path: Path) -> None:
    """One request of each kind of caller, with the audit in a file."""
    async with admin_api() as (client, control):
        file = AuditFile(path)
        control.audit.write_to(file)
        await switch(client)
        await switch(client, token=VIEWER)
        await client.get(STATUS, headers=bearer(WRONG))
        await client.get(STATUS)
        file.close()


def test_the_audit_file_has_the_id_of_each_token_and_never_a_token(tmp_path: Path) -> None:
    """The first eight hexadecimal digits of its SHA-256 digest, of a wrong one too; none without one."""
    path = tmp_path / "audit.jsonl"
    _callers_in_the_file(path)
    text, of_strangers = (one.read_text(encoding="ascii") for one in (path, path.with_name("audit.strangers.jsonl")))
    lines = [json.loads(line) for line in (text + of_strangers).splitlines()]
    assert [(line["kind"], line["role"], line["token"], line["address"]) for line in lines] == [
        ("change", "operator", "d34dfc5f", "192.0.2.7"),
        ("refused", "viewer", "d1c34754", "192.0.2.7"),
        ("read", "none", "67845ee7", "192.0.2.7"),
        ("read", "none", "", "192.0.2.7"),
    ]
    assert len(text.splitlines()) == 2
    assert not any(token in text + of_strangers for token in (OPERATOR, VIEWER, WRONG))
