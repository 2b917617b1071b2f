"""``GET /headway/v1/usage``: its rows, its two forms, and what it refuses."""

from __future__ import annotations

import csv
import io
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from admin_api import OPERATOR, VIEWER, admin_api, bearer, client_of
from engines import ReportingEngine
from small_presets import small_preset
from usage_records import usage_record

from headway.engine.port import PlainAdapter
from headway.operator.install import Surroundings, install, prepare
from headway.operator.presets import PresetCatalogue
from headway.usage import TenantBudgets, UsageLog, UsageStore, reader
from headway.utc_text import utc_text
from headway_policies.budgets import Budget, Owned
from headway_policies.entitlement import Entitlement
from headway_policies.usage import Prices, UsageRecord

PATH = "/headway/v1/usage"
PRICES = Prices.parse('currency = "EUR"\n[[prices]]\nprompt = 2\noutput = 10')


def record(tenant: str, tokens: int, **given: Any) -> UsageRecord:
    """A request that has just ended."""
    return usage_record(tenant, time.time(), key="k-1", prompt_tokens=tokens, **given)


@asynccontextmanager
async def counted(path: Path, prices: Prices | None = PRICES) -> AsyncIterator[tuple[httpx.AsyncClient, UsageLog]]:
    """An operator of a server that counts, and what it counts with."""
    usage = UsageLog(UsageStore(path), prices, every_s=0.01)
    usage.store.check()
    parts = prepare(ReportingEngine(), PlainAdapter(), small_preset(2))
    control = install(parts, PresetCatalogue(), Surroundings(usage=usage))
    try:
        async with client_of(control) as client:
            client.headers.update(bearer())
            yield client, usage
    finally:
        usage.close()


async def test_the_rows_are_by_tenant_with_costs(tmp_path: Path) -> None:
    """What ended a moment ago is among them, those with the most tokens first."""
    async with counted(tmp_path / "usage.db") as (client, usage):
        usage.add(record("small", 1_000_000))
        usage.add(record("large", 3_000_000, output_tokens=100_000))
        usage.add(record("small", 0, outcome="rejected_full", reason="queue_full"))
        found = (await client.get(PATH)).json()
        rows = [(row["group"], row["requests"], row["refused"], row["cost"]) for row in found["rows"]]
        assert rows == [({"tenant": "large"}, 1, 0, 7.0), ({"tenant": "small"}, 2, 1, 2.0)]
        assert (found["total"]["cost"], found["currency"], found["lost"], found["waiting"]) == (9.0, "EUR", 0, 0)
        by_day = (await client.get(PATH, params={"every": "day", "by": ""})).json()["rows"]
        assert [row["start"][10:] for row in by_day] == ["T00:00:00Z"] * len(by_day)
        assert sum(row["requests"] for row in by_day) == 3


async def test_a_range_whose_minutes_are_gone_is_that_of_its_hours(tmp_path: Path) -> None:
    """Of many tenants a million rows are fewer minutes than a day has. Rows by the minute are those that are left."""
    async with counted(tmp_path / "usage.db") as (client, usage):
        earlier = record("small", 10)._replace(ended_s=time.time() - 20 * 3600)
        for one in (earlier, record("small", 3)):
            usage.add(one)
        assert usage.flush(5)
        with sqlite3.connect(tmp_path / "usage.db") as connection:
            connection.execute("DELETE FROM usage WHERE period = 60 AND prompt_tokens = 10")
        found = (await client.get(PATH)).json()
        assert (found["total"]["prompt_tokens"], found["since"][-6:]) == (13, "00:00Z")
        assert found["kept_since"] <= utc_text(earlier.ended_s)
        by_minute = (await client.get(PATH, params={"every": "minute"})).json()
        assert by_minute["total"]["prompt_tokens"] == 3
        lately = (await client.get(PATH, params={"since": "1m"})).json()
        assert lately["total"]["prompt_tokens"] == 3


async def test_the_shares_and_organisations_of_the_keys_file_are_with_the_tenants_of_the_rows(tmp_path: Path) -> None:
    """None of others, and none where rows are not by tenant."""
    async with counted(tmp_path / "usage.db") as (client, usage):
        assert (await client.get(PATH)).json()["shares"] == {}
        acme = Owned("acme", Budget(), {"large": Budget(), "away": Budget()})
        listed = [
            Entitlement("large", share=3.0, budgets=(Owned("large", Budget()), acme)),
            Entitlement("away", share=2.0),
        ]
        usage.budgets = TenantBudgets(usage, lambda: listed)
        usage.add(record("large", 30))
        usage.add(record("small", 10))
        found = (await client.get(PATH)).json()
        assert (found["shares"], found["organisations"]) == ({"large": 3.0}, {"large": "acme"})
        found = (await client.get(PATH, params={"by": "class"})).json()
        assert (found["shares"], found["organisations"]) == ({}, {})


@pytest.mark.parametrize(
    ("query", "accept", "media"),
    [
        ({"format": "csv"}, "*/*", "text/csv"),
        ({}, "text/csv", "text/csv"),
        ({}, "text/csv;q=0.9, application/json", "text/csv"),
        ({}, "application/json, text/csv", "application/json"),
        ({"format": "json"}, "text/csv", "application/json"),
        ({}, "*/*", "application/json"),
    ],
)
async def test_the_form_is_that_which_was_asked_for(
    query: dict[str, str], accept: str, media: str, tmp_path: Path
) -> None:
    """By the parameter, else by the Accept header."""
    async with counted(tmp_path / "usage.db") as (client, usage):
        usage.add(record("a", 5))
        answer = await client.get(PATH, params=query, headers={"accept": accept})
        assert answer.headers["content-type"].partition(";")[0] == media


async def test_csv_has_the_same_figures_and_no_formula(tmp_path: Path) -> None:
    """A name that a spreadsheet would compute is text there."""
    async with counted(tmp_path / "usage.db") as (client, usage):
        usage.add(record("=1+1", 1_000_000))
        usage.add(record('two, "words"', 5))
        text = (await client.get(PATH, params={"format": "csv", "by": "tenant,key"})).text
        rows = list(csv.DictReader(io.StringIO(text)))
        assert [(row["tenant"], row["key"], row["prompt_tokens"]) for row in rows] == [
            ("'=1+1", "k-1", "1000000"),
            ('two, "words"', "k-1", "5"),
        ]
        assert rows[0]["cost"] == "2.0"


@pytest.mark.parametrize("query", [{"by": "x"}, {"since": "soon"}, {"every": "year"}, {"format": "xml"}])
async def test_a_wrong_parameter_is_named(query: dict[str, str], tmp_path: Path) -> None:
    """422, as a problem."""
    async with counted(tmp_path / "usage.db") as (client, _):
        answer = await client.get(PATH, params=query)
        assert answer.status_code == 422
        assert answer.json()["detail"].startswith(f"{next(iter(query))}: ")


async def test_too_many_rows_are_refused_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of the rows would be taken for all."""
    monkeypatch.setattr(reader, "MAX_ROWS", 3)
    async with counted(tmp_path / "usage.db") as (client, usage):
        for number in range(4):
            usage.add(record(f"t{number}", 1))
        assert (await client.get(PATH)).status_code == 422
        assert (await client.get(PATH, params={"by": "class"})).status_code == 200


async def test_a_database_that_cannot_be_read_is_503(tmp_path: Path) -> None:
    """And comes back when it can."""
    path = tmp_path / "usage.db"
    async with counted(path) as (client, usage):
        usage.add(record("a", 1))
        assert (await client.get(PATH)).status_code == 200
        with sqlite3.connect(path) as other:
            other.execute("ALTER TABLE usage RENAME TO gone")
        answer = await client.get(PATH)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        with sqlite3.connect(path) as other:
            other.execute("ALTER TABLE gone RENAME TO usage")
        assert (await client.get(PATH)).status_code == 200


async def test_a_viewer_reads_and_a_server_that_does_not_count_says_so(tmp_path: Path) -> None:
    """501 with the variable to set."""
    async with counted(tmp_path / "usage.db") as (client, _):
        assert (await client.get(PATH, headers=bearer(VIEWER))).status_code == 200
        assert (await client.get(PATH, headers=bearer("x" * 40))).status_code == 401
    async with admin_api() as (client, _):
        answer = await client.get(PATH, headers=bearer(OPERATOR))
        assert answer.status_code == 501
        assert "HEADWAY_USAGE_DB" in answer.json()["detail"]
