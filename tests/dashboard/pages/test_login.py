"""Who may change the server: visitors who logged in, or those of this machine."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from app_pages import PAGE, opened_alone
from streamlit import config
from streamlit.testing.v1 import AppTest
from stub_server import OPERATOR_TOKEN, StubServer

from headway_dashboard.reach import LOOPBACK_ONLY, READ_ONLY
from headway_dashboard.trusted_proxy import HEADER, PROXIES

pytestmark = pytest.mark.slow

Open = Callable[..., AppTest]


@pytest.fixture
def visit(monkeypatch: pytest.MonkeyPatch, watching: Callable[..., None], stub: StubServer) -> Open:
    """Open Control, with the operator's token, on a dashboard that listens on ``address``."""
    for name in (HEADER, PROXIES, LOOPBACK_ONLY):
        monkeypatch.delenv(name, raising=False)

    def visit(address: str, **environment: str) -> AppTest:
        config.set_option("server.address", address)
        watching(stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN, **environment)
        return opened_alone("control", PAGE)

    return visit


def may_change(app: AppTest) -> bool:
    """Whether a button that changes the server can be pressed."""
    assert not app.exception
    return any(one.label == "Recycle the engine" and not one.disabled for one in app.button)


def told(app: AppTest) -> str:
    """What the page says about rights."""
    return "\n".join(str(one.value) for one in app.info)


def recycled(stub: StubServer) -> bool:
    """Whether the server was asked to."""
    return any(method == "POST" and "recycle" in path for method, path in stub.requests)


def test_on_the_loopback_nobody_has_to_log_in(visit: Open) -> None:
    """The token is enough for visitors of this machine."""
    assert may_change(visit("127.0.0.1"))


def test_a_page_for_a_network_only_shows(visit: Open) -> None:
    """And says what to set."""
    app = visit("0.0.0.0")
    assert not may_change(app)
    assert told(app) == READ_ONLY


def test_a_container_that_is_published_for_this_machine_may_change(visit: Open) -> None:
    """Somebody has said so."""
    assert may_change(visit("0.0.0.0", **{LOOPBACK_ONLY: "1"}))


def test_a_press_on_a_page_that_only_shows_changes_nothing(visit: Open, stub: StubServer) -> None:
    """Also where the button was drawn while it could be pressed."""
    app = visit("127.0.0.1")
    app.text_input(key="recycle_confirm").set_value("recycle")
    config.set_option("server.address", "0.0.0.0")
    next(one for one in app.button if one.label == "Recycle the engine").click().run()
    assert "Nothing was changed: log in first." in [one.value.replace("\\", "") for one in app.warning]
    assert not recycled(stub)


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_behind_a_proxy_only_its_users_may_change(
    visit: Open, stub: StubServer, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A visit that passed the proxy by has no user, on the loopback too; with one, its name stands in the log."""
    settings = {HEADER: "x-forwarded-user", PROXIES: "10.0.0.5"}
    app = visit(address, **settings)
    assert not may_change(app)
    assert "open this page through the proxy" in told(app)
    monkeypatch.setattr("headway_dashboard.rights.proven_user", lambda: "anna")
    app = visit(address, **settings)
    assert may_change(app)
    assert "recycle_actor" not in {one.key for one in app.text_input}


def test_a_header_without_a_proxy_is_an_error_that_is_said(visit: Open) -> None:
    """Nobody can log in until it is mended."""
    app = visit("127.0.0.1", **{HEADER: "x-forwarded-user"})
    assert not may_change(app)
    assert f"{PROXIES} names no proxy" in told(app)
