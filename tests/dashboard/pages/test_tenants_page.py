"""The Tenants page: all of them, one of them, its file, and what it says without figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from app_pages import again_until, opened, plain, press, tiles, words
from streamlit.testing.v1 import AppTest
from stub_server import VIEWER_TOKEN, StubServer

from headway_dashboard.sources import tenant_usage

VIEWER = {"HEADWAY_VIEWER_TOKEN": VIEWER_TOKEN}


@pytest.fixture
def stub() -> Iterator[StubServer]:
    """A server whose accounting has four rows."""
    with StubServer() as server:
        yield server


def rows(app: AppTest) -> dict[str, list[str]]:
    """The cells of the table of tenants, by tenant."""
    sent = [json.loads(one.proto.json) for one in app.get("bidi_component")]
    (data,) = [one for one in sent if one.get("name") == "Tenants"]
    assert (data["parameter"], data["path"]) == ("tenant", "tenants")
    return {row["key"]: [cell["text"] for cell in row["cells"]] for row in data["rows"]}


def tables(app: AppTest) -> list[list[Any]]:
    """The plain tables, row by row."""
    return [one.value.to_numpy().tolist() for one in app.table]


def test_all_tenants_are_shown_with_who_holds_back_whom(watching: Callable[..., None], stub: StubServer) -> None:
    """The tiles, the sentence, a row each, and the budgets with their end."""
    watching(stub.url, **VIEWER)
    app = opened("tenants")
    assert "held had 14 of 20 requests refused" in again_until(app, "held had 14 of 20 requests refused")
    assert {"Tenants": "3", "Held back": "1 of 3"}.items() <= tiles(app).items()
    assert list(rows(app)) == ["loud", "held", "quiet", "(server)"]
    assert rows(app)["loud"][-3].startswith("90")
    assert [row[0] for row in tables(app)[0]] == ["tenant loud", "tenant quiet", "organisation acme"]
    asked = [path for _, path in stub.requests if "/usage" in path]
    assert set(asked) == {"/headway/v1/usage?by=tenant&since=300s"}


def test_one_tenant_is_a_click_away_and_so_is_the_way_back(watching: Callable[..., None], stub: StubServer) -> None:
    """The address names it."""
    watching(stub.url, **VIEWER)
    app = opened("tenants", {"tenant": "loud"})
    again_until(app, "#### Tenant loud")
    assert tiles(app)["Refused"] == "60"
    assert plain(tables(app)[0][0][1]) == "k-1"
    assert [row[0] for row in tables(app)[1]] == ["tenant loud"]
    press(app, "All tenants")
    assert "tenant" not in app.query_params
    again_until(app, "held had 14 of 20 requests refused")


def test_a_tenant_that_asked_for_nothing_is_told(watching: Callable[..., None], stub: StubServer) -> None:
    """It is no error."""
    watching(stub.url, **VIEWER)
    again_until(opened("tenants", {"tenant": "nobody"}), "The tenant has asked for nothing in this range.")


def test_without_a_token_the_page_says_what_to_do(watching: Callable[..., None], stub: StubServer) -> None:
    """Nothing is asked for, and the charts are there."""
    watching(stub.url)
    found = again_until(opened("tenants"), tenant_usage.NEEDED)
    assert "Tokens by tenant" in found
    assert not [path for _, path in stub.requests if "/usage" in path]


@pytest.mark.parametrize(
    ("status", "detail", "said"),
    [
        (501, "The accounting is off: start with HEADWAY_USAGE_DB=FILE.", "start with HEADWAY_USAGE_DB=FILE"),
        (401, "A valid token is needed.", "does not know this token"),
        (404, "The admin API is off.", "admin API is off"),
        (422, "more than 5000 rows: ask for a shorter range.", "shorter range"),
    ],
)
def test_a_server_that_does_not_tell_says_why(
    watching: Callable[..., None], stub: StubServer, status: int, detail: str, said: str
) -> None:
    """In its own words, where it has some."""
    problem = {"type": "about:blank", "title": "no", "status": status, "detail": detail}
    stub.forced["GET", "/headway/v1/usage"] = (status, problem)
    watching(stub.url, **VIEWER)
    again_until(opened("tenants"), said)


def test_of_several_servers_the_sums_are_shown(watching: Callable[..., None], stub: StubServer) -> None:
    """Of tokens, requests and shares; budgets apart. One of them can be chosen, as on every page."""
    with StubServer() as other:
        watching(stub.url, other.url, **VIEWER)
        app = opened("tenants")
        assert "Each server counts budgets for itself" in again_until(app, "held had 28 of 40 requests refused")
        loud = [plain(cell) for cell in rows(app)["loud"]]
        assert (loud[2], loud[3], loud[-3]) == ("180", "120", "90 %")
        names = [one.url.removeprefix("http://") for one in (stub, other)]
        assert [[plain(cell) for cell in row[:2]] for row in tables(app)[0]] == [
            [name, owner] for name in names for owner in ("tenant loud", "tenant quiet", "organisation acme")
        ]
        other.requests.clear()
        app = opened("tenants", {"instance": names[0]})
        again_until(app, "held had 14 of 20 requests refused")
        assert not [path for _, path in other.requests if "/usage" in path]


def test_servers_of_one_database_count_once(watching: Callable[..., None], stub: StubServer) -> None:
    """Each of them tells the use of all."""
    with StubServer() as other:
        for one in (stub, other):
            one.database = "the same"
        watching(stub.url, other.url, **VIEWER)
        app = opened("tenants")
        again_until(app, "held had 14 of 20 requests refused")
        assert [row[0] for row in tables(app)[0]] == ["tenant loud", "tenant quiet", "organisation acme"]


def test_a_server_without_an_answer_is_named(watching: Callable[..., None], stub: StubServer) -> None:
    """The others are shown without it."""
    with StubServer() as other:
        off = {"type": "about:blank", "title": "no", "status": 501, "detail": "The accounting is off."}
        other.forced["GET", "/headway/v1/usage"] = (501, off)
        watching(stub.url, other.url, **VIEWER)
        app = opened("tenants")
        again_until(app, "held had 14 of 20 requests refused")
        assert f"{other.url.removeprefix('http://')}: The accounting is off." in words(app)
