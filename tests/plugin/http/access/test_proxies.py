"""Trusted proxies: which peers are listed, and that no header makes one of a client."""

from __future__ import annotations

from typing import Any

import pytest
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from headway.errors import HeadwayError
from headway.http.access.proxies import PEER, TrustedProxies

PROXIES = TrustedProxies.from_environment({"HEADWAY_TRUSTED_PROXIES": "10.0.0.5, 192.0.2.0/24,2001:db8::/32"})
FORWARDED = [(b"x-forwarded-for", b"10.0.0.5")]


def scope(client: str | None, **more: Any) -> dict[str, Any]:
    """A request from this address."""
    return {"type": "http", "client": client and (client, 50000), "headers": [], **more}


@pytest.mark.parametrize("client", ["10.0.0.5", "192.0.2.200", "2001:db8::1", "::ffff:10.0.0.5"])
def test_a_listed_peer_is_trusted(client: str) -> None:
    """An address, a network, and IPv4 in the notation of IPv6."""
    assert PROXIES.sent(scope(client))


@pytest.mark.parametrize("entry", ["::ffff:10.0.0.5", "::ffff:10.0.0.0/120"])
def test_ipv4_may_be_listed_in_the_notation_of_ipv6(entry: str) -> None:
    """As a log of a server that listens on both has it."""
    listed = TrustedProxies.from_environment({"HEADWAY_TRUSTED_PROXIES": entry})
    assert listed.sent(scope("10.0.0.5"))
    assert listed.sent(scope("::ffff:10.0.0.5"))
    assert not listed.sent(scope("10.0.1.5"))


@pytest.mark.parametrize("client", ["10.0.0.6", "192.0.3.1", "2001:db9::1", "localhost", None])
def test_any_other_peer_is_not(client: str | None) -> None:
    """Nor a Unix socket, which has no address, nor a name."""
    assert not PROXIES.sent(scope(client))


def test_without_a_list_no_peer_is_trusted() -> None:
    """The usual case."""
    assert not TrustedProxies.from_environment({})
    assert not TrustedProxies().sent(scope("127.0.0.1"))


async def test_a_forged_header_makes_no_client_a_trusted_proxy() -> None:
    """uvicorn puts the address of the header in place of the peer's where it trusts the peer, as it does 127.0.0.1."""
    seen: list[bool] = []

    async def application(asked: Any, receive: Any, send: Any) -> None:
        seen.append(PROXIES.sent(asked))

    uvicorn = ProxyHeadersMiddleware(application, trusted_hosts="127.0.0.1")
    for peer in ({}, {PEER: ("127.0.0.1", 50000)}):
        forged: Any = scope("127.0.0.1", headers=FORWARDED, **peer)
        await uvicorn(forged, None, None)  # type: ignore[arg-type]
        assert forged["client"][0] == "10.0.0.5"
    assert seen == [False, False]


def test_a_listed_proxy_may_forward_the_address_of_its_client() -> None:
    """Where the server has kept the peer's address."""
    assert PROXIES.sent(scope("203.0.113.9", headers=[(b"x-forwarded-for", b"203.0.113.9")], **{PEER: ("10.0.0.5", 1)}))
    assert not PROXIES.sent(scope("10.0.0.5", headers=[], **{PEER: ("203.0.113.9", 1)}))
    assert not PROXIES.sent(scope("10.0.0.5", **{PEER: None}))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("proxy.example", "an address or a network"),
        ("10.0.0.5/24", "host bits set"),
        ("0.0.0.0/0", "would trust every client"),
        ("::/0", "would trust every client"),
        (",".join(["10.0.0.1"] * 65), "64 at most"),
    ],
)
def test_a_wrong_list_is_one_line_that_names_the_variable(value: str, words: str) -> None:
    """And the entry."""
    with pytest.raises(HeadwayError, match=r"^HEADWAY_TRUSTED_PROXIES: ") as caught:
        TrustedProxies.from_environment({"HEADWAY_TRUSTED_PROXIES": value})
    assert words in str(caught.value)
