"""From where the page can be reached, by the address it listens on."""

from __future__ import annotations

import pytest
import streamlit as st

from headway_dashboard import rights
from headway_dashboard.reach import LOOPBACK_ONLY, READ_ONLY, is_open
from headway_dashboard.settings import Settings
from headway_dashboard.trusted_proxy import HEADER, PROXIES


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost"])
def test_the_loopback_is_this_machine(address: str) -> None:
    """Nobody else reaches it."""
    assert not is_open(address, {})


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.0.0.5", "example.org", "", None])
def test_every_other_address_is_open(address: str | None) -> None:
    """Also a name that may be anything, and no address, which is every one."""
    assert is_open(address, {})
    assert not is_open(address, {LOOPBACK_ONLY: "1"})
    assert is_open(address, {LOOPBACK_ONLY: "0"})


def test_the_words_name_every_way_out() -> None:
    """The host, both logins, and the variable of a container."""
    for name in ("--host", "[auth]", HEADER, PROXIES, LOOPBACK_ONLY):
        assert name in READ_ONLY


@pytest.mark.parametrize(
    ("address", "settings", "environment", "said"),
    [
        ("0.0.0.0", Settings(role="operator", token="x"), {}, True),
        ("127.0.0.1", Settings(role="operator", token="x"), {}, False),
        ("0.0.0.0", Settings(role="viewer", token="x"), {}, False),
        ("0.0.0.0", Settings(role="operator", token="x"), {HEADER: "x-user", PROXIES: "::1"}, False),
    ],
    ids=["open", "loopback", "viewer", "proxy"],
)
def test_a_start_that_makes_a_token_useless_says_so(
    address: str, settings: Settings, environment: dict[str, str], said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where somebody has given an operator's token that no visitor may use."""
    monkeypatch.setattr(st.secrets, "load_if_toml_exists", lambda: False)
    for name in (HEADER, PROXIES, LOOPBACK_ONLY):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert bool(rights.start_words(address, settings)) == said
