"""The admin client: every answer of the server becomes a value or one kind of error."""

from __future__ import annotations

import pytest
from stub_server import OPERATOR_TOKEN, VIEWER_TOKEN, StubServer

from headway.api import (
    AdminError,
    InvalidCommandError,
    NoAnswerInTimeError,
    NotHeadwayError,
    RefusedError,
    RoleError,
    StaleError,
    SwitchedOffError,
    TokenRefusedError,
    UnreachableError,
)
from headway_dashboard.rights import ask
from headway_dashboard.server_client import admin_client
from headway_dashboard.settings import Settings


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, TokenRefusedError),
        (403, RoleError),
        (404, SwitchedOffError),
        (409, RefusedError),
        (412, StaleError),
        (415, RefusedError),
        (422, InvalidCommandError),
        (428, RefusedError),
        (500, RefusedError),
        (302, RefusedError),
    ],
)
@pytest.mark.parametrize("body", [{"detail": "as the server says"}, "no json", "[]"], ids=["problem", "text", "list"])
def test_each_status_is_one_kind_of_error(
    stub: StubServer, status: int, error: type[AdminError], body: dict[str, str] | str
) -> None:
    """The server's sentence where there is one, else the status; never a stack trace."""
    stub.forced["PUT", "/headway/v1/preset"] = (status, body)
    with pytest.raises(error, match="as the server says" if isinstance(body, dict) else f"status {status}"):
        admin_client(stub.url, OPERATOR_TOKEN).switch("latency", revision=1)


@pytest.mark.parametrize("body", ["no json", "[1]"])
def test_an_answer_that_is_no_object_is_refused(stub: StubServer, body: str) -> None:
    """A proxy's page with status 200 is not an answer."""
    stub.forced["GET", "/headway/v1/presets"] = (200, body)
    with pytest.raises(NotHeadwayError):
        admin_client(stub.url, OPERATOR_TOKEN).presets()


def test_no_server_listens(nobody: str) -> None:
    """A closed port is one sentence."""
    with pytest.raises(UnreachableError, match="not reachable"):
        admin_client(nobody, OPERATOR_TOKEN).presets()


def test_hanging_server(black_hole: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that never answers is given up."""
    monkeypatch.setattr("headway_dashboard.server_client.TIMEOUT_S", (0.2, 0.2))
    with pytest.raises(NoAnswerInTimeError, match="in time"):
        admin_client(black_hole, OPERATOR_TOKEN).presets()


@pytest.mark.parametrize(
    ("environment", "may_apply", "word"),
    [
        ({"HEADWAY_ADMIN_TOKEN": OPERATOR_TOKEN}, True, ""),
        ({"HEADWAY_VIEWER_TOKEN": VIEWER_TOKEN}, False, "viewer"),
        ({"HEADWAY_ADMIN_TOKEN": "x" * 40}, False, "does not know this token"),
        ({}, False, "HEADWAY_ADMIN_TOKEN"),
    ],
)
def test_what_the_page_may_do(stub: StubServer, environment: dict[str, str], may_apply: bool, word: str) -> None:
    """One sentence about what is missing."""
    settings = Settings.from_environment({"HEADWAY_URL": stub.url, **environment})
    client = admin_client(settings.url, settings.token)
    _, rights = ask(settings, client)
    assert rights.may_apply is may_apply
    assert word in rights.sentence
    client.close()
