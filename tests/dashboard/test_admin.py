"""The admin client: every answer of the server becomes a value or one kind of error."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stub_server import OPERATOR_TOKEN, VIEWER_TOKEN, StubServer

from headway.api import (
    AdminClient,
    AdminError,
    InvalidOrderError,
    NoAnswerInTimeError,
    NotHeadwayError,
    RefusedError,
    RoleError,
    SettingChange,
    StaleError,
    SwitchedOffError,
    TokenRefusedError,
    UnreachableError,
)
from headway_dashboard.rights import ask
from headway_dashboard.server_client import admin_client
from headway_dashboard.settings import Settings
from headway_policies import bundled_presets


def test_presets_switch_audit(stub: StubServer) -> None:
    """List, switch on the shown revision, and find it in the log."""
    client = admin_client(stub.url, OPERATOR_TOKEN)
    presets = client.presets()
    assert {one.name for one in presets.presets} == set(bundled_presets())
    assert (presets.current.name, presets.current.revision) == ("balanced", 1)
    done = client.switch("latency", revision=1, reason="rush hour", actor="anna")
    assert (done.name, done.previous, done.revision) == ("latency", "balanced", 2)
    assert SettingChange(setting="batching.seats", before=32, after=8) in done.changes
    entry = client.audit()[0]
    assert (entry.actor, entry.before, entry.after, entry.reason) == ("anna", "balanced", "latency", "rush hour")
    client.close()


def test_stale_revision_changes_nothing(stub: StubServer) -> None:
    """Another operator was faster: the client gets the conflict, the server stays as it is."""
    client = admin_client(stub.url, OPERATOR_TOKEN)
    client.switch("latency", revision=1)
    with pytest.raises(StaleError):
        client.switch("throughput", revision=1)
    assert client.presets().current.name == "latency"


@pytest.mark.parametrize(
    ("token", "error"), [(None, TokenRefusedError), ("wrong" * 10, TokenRefusedError), (VIEWER_TOKEN, RoleError)]
)
def test_rights(stub: StubServer, token: str | None, error: type[AdminError]) -> None:
    """No token, a wrong one, a viewer's: none can switch."""
    with pytest.raises(error):
        admin_client(stub.url, token).switch("latency", revision=1)
    assert stub.world.preset == "balanced"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, TokenRefusedError),
        (403, RoleError),
        (404, SwitchedOffError),
        (409, RefusedError),
        (412, StaleError),
        (415, RefusedError),
        (422, InvalidOrderError),
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


def test_order_the_ladder_and_let_it_go(stub: StubServer) -> None:
    """An order holds until it is withdrawn; both are in the log with actor and reason."""
    client = admin_client(stub.url, OPERATOR_TOKEN)
    ladder = client.order_fallback("shed", reason="half the GPUs are away", actor="anna")
    assert (ladder.rung, ladder.ordered, ladder.in_force) == ("shed", "shed", ["cap", "bypass", "shed"])
    assert ladder.moves[0].after == "shed"
    assert client.order_fallback(None).ordered is None
    entry = client.audit()[1]
    assert (entry.action, entry.actor, entry.after) == ("order_fallback", "anna", "shed")
    assert entry.reason == "half the GPUs are away"
    with pytest.raises(RefusedError, match="nothing to do"):
        client.order_fallback("divert")


def test_recycle_is_accepted_once(stub: StubServer) -> None:
    """202 is an answer like any other; a second one comes too early, and a server may not be able to at all."""
    stub.world.in_flight["normal"] = 5
    client = admin_client(stub.url, OPERATOR_TOKEN)
    assert client.recycle(reason="memory in pieces", actor="anna").seats_taken == 5
    with pytest.raises(RefusedError, match="under way"):
        client.recycle()
    stub.world.can_replace = False
    with pytest.raises(RefusedError, match="cannot replace"):
        client.recycle()


@pytest.mark.parametrize("act", [lambda client: client.order_fallback("cap"), lambda client: client.recycle()])
def test_a_viewer_orders_nothing(stub: StubServer, act: Callable[[AdminClient], object]) -> None:
    """The server checks the role, whatever a page offers."""
    with pytest.raises(RoleError):
        act(admin_client(stub.url, VIEWER_TOKEN))
    assert (stub.world.ordered, stub.world.recycling) == (False, False)


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


def test_token_does_not_follow_a_redirect(stub: StubServer) -> None:
    """The token goes to the configured server only."""
    stub.forced["GET", "/headway/v1/presets"] = (302, {"detail": "moved"})
    with pytest.raises(RefusedError):
        admin_client(stub.url, OPERATOR_TOKEN).presets()
    assert [path for _, path in stub.requests] == ["/headway/v1/presets"]


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
