"""Who a request is behind the route guard: keys of the file and of vLLM, proxies, and addresses that guess."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from guarded_server import ACME, HOLDERS, OF_VLLM, OPERATOR, PRESET, TENANT, VIEWER, Keys, Ring, Server, access
from small_presets import small_preset

from headway.http.access import ApiKeys, RouteTable, TrustedProxies
from headway.http.access.identity import Identity
from headway.http.access.lockout import MOST_WRONG
from headway.http.access.route_guard import REASONS
from headway_policies import Preset


async def test_the_identity_of_a_key_reaches_the_application() -> None:
    """Tenant, rights and the id of the key; also of a key in Anthropic's header."""
    server = Server(access())
    await server.ask("/v1/completions", "POST", TENANT)
    await server.ask("/v1/messages", "POST", headers=[(b"x-api-key", TENANT.encode())])
    assert server.reached == [Identity(ACME, "acme-1")] * 2


async def test_an_expired_key_is_wrong() -> None:
    """The ring is given the time of day."""
    keys = Keys()
    keys.ring.expires_s = 1.0
    assert (await Server(access(keys=keys)).ask("/v1/models", key=TENANT)).status == 401


async def test_a_changed_keys_file_counts_from_the_next_request_on() -> None:
    """The ring is asked for each time."""
    keys = Keys()
    server = Server(access(keys=keys))
    assert (await server.ask("/v1/models", key=TENANT)).status == 200
    keys.ring = Ring()
    keys.ring.expires_s = 0.0
    assert (await server.ask("/v1/models", key=TENANT)).status == 401


async def test_vllms_own_keys_make_one_tenant_with_every_class() -> None:
    """In either header; vLLM's check behind the guard is given a key that it knows."""
    server = Server(access(keys=None, api_keys=ApiKeys([OF_VLLM, "sk-other"])))
    await server.ask("/v1/completions", "POST", "sk-other")
    await server.ask("/v1/messages", "POST", headers=[(b"x-api-key", b"sk-other")])
    assert [one and (one.tenant, one.entitlement.classes) for one in server.reached] == [("default", None)] * 2
    for headers in server.headers:
        found = [value for name, value in headers if name in (b"authorization", b"x-api-key")]
        assert found == [f"Bearer {OF_VLLM}".encode()]
    assert (await server.ask("/v1/completions", "POST", TENANT)).status == 401


async def test_keys_of_the_file_and_of_vllm_hold_together() -> None:
    """And the header of a tenant's key is exchanged for vLLM's, as is that of the operator's token."""
    server = Server(access(api_keys=ApiKeys([OF_VLLM])))
    for path, key in [("/v1/models", TENANT), ("/v1/models", OF_VLLM), ("/server_info", OPERATOR)]:
        assert (await server.ask(path, key=key)).status == 200
    for headers in server.headers:
        assert (b"authorization", f"Bearer {OF_VLLM}".encode()) in headers


async def test_without_keys_of_vllm_the_headers_stay() -> None:
    """Another middleware may read them."""
    server = Server(access())
    await server.ask("/v1/models", key=TENANT)
    assert (b"authorization", f"Bearer {TENANT}".encode()) in server.headers[0]


async def test_anonymous_is_bound_to_the_preset_in_force() -> None:
    """The identity changes with a switch."""
    presets: list[Preset] = [PRESET, small_preset(name="other")]
    server = Server(access(keys=None, preset=lambda: presets[0]))
    await server.ask("/v1/completions", "POST", "any key at all")
    assert server.reached[0] is not None
    assert server.reached[0].entitlement.classes == frozenset({"normal", "batch"})
    presets.reverse()
    await server.ask("/v1/completions", "POST")
    assert server.reached[1] == server.reached[0]


PROXY = {"proxies": TrustedProxies.from_environment({"HEADWAY_TRUSTED_PROXIES": "10.0.0.5"})}


@pytest.mark.parametrize("keys", [Keys(), None])
async def test_a_trusted_proxy_needs_no_key(keys: Keys | None) -> None:
    """The proxy has every class; another peer is none, whatever it writes into its headers."""
    server = Server(access(keys=keys, **PROXY))
    assert (await server.ask("/v1/completions", "POST", client="10.0.0.5")).status == 200
    assert server.reached[0] is not None
    assert server.reached[0].trusted
    assert server.reached[0].entitlement.classes is None
    forged = [(b"x-forwarded-for", b"10.0.0.5"), (b"forwarded", b"for=10.0.0.5")]
    reply = await server.ask("/v1/completions", "POST", headers=forged)
    assert reply.status == (401 if keys else 200)
    assert not any(one.trusted for one in server.reached[1:] if one)


async def test_a_login_at_a_trusted_proxy_is_no_key() -> None:
    """Basic is the proxy's own, which it may pass on; of any other peer it is no key either."""
    server = Server(access(**PROXY))
    basic = [(b"authorization", b"Basic dTpw")]
    assert (await server.ask("/v1/models", client="10.0.0.5", headers=basic)).status == 200
    assert (await server.ask("/v1/models", headers=basic)).status == 401


async def test_a_key_that_a_trusted_proxy_passes_on_decides() -> None:
    """A right one by its rights, a wrong one not at all, and however many there are: the proxy is not locked out."""
    server = Server(access(**PROXY))
    await server.ask("/v1/models", key=TENANT, client="10.0.0.5")
    assert server.reached == [Identity(ACME, "acme-1")]
    for _ in range(MOST_WRONG + 1):
        assert (await server.ask("/v1/models", key="wrong", client="10.0.0.5")).status == 401
    assert (await server.ask("/v1/models", client="10.0.0.5")).status == 200


async def test_ten_wrong_keys_lock_the_address_and_no_other() -> None:
    """The eleventh is 429 with the time to wait, and so is a right token; a right key of the keys file passes, since
    many clients may share an address, and open routes stay open."""
    server = Server(access())
    got = [(await server.ask("/v1/models", key="wrong")).status for _ in range(MOST_WRONG + 1)]
    assert got == [401] * MOST_WRONG + [429]
    reply = await server.ask("/server_info", key=OPERATOR)
    assert (reply.status, reply.error["code"]) == (429, "too_many_wrong_keys")
    assert 1 <= int(reply.headers["retry-after"]) <= 60
    assert (await server.ask("/v1/models", key=TENANT)).status == 200
    assert (await server.ask("/health")).status == 200
    assert (await server.ask("/v1/models", key=TENANT, client="203.0.113.8")).status == 200


async def test_wrong_tokens_of_operators_lock_as_well() -> None:
    """A missing one is no guess."""
    server = Server(access())
    for _ in range(2 * MOST_WRONG):
        assert (await server.ask("/server_info")).status == 401
    for _ in range(MOST_WRONG):
        assert (await server.ask("/server_info", key="wrong")).status == 401
    assert (await server.ask("/server_info", key=OPERATOR)).status == 429


async def test_a_refusal_has_the_format_of_its_api() -> None:
    """OpenAI's body, Anthropic's on its route; a 401 says how to authenticate."""
    server = Server(access())
    reply = await server.ask("/v1/chat/completions", "POST")
    assert (reply.status, reply.error["code"]) == (401, "invalid_api_key")
    assert reply.headers["www-authenticate"] == "Bearer"
    anthropic = await server.ask("/v1/messages", "POST")
    body = json.loads(anthropic.sent[1]["body"])
    assert (anthropic.status, body["type"]) == (401, "error")
    assert "code" not in body["error"]


async def test_no_refusal_shows_what_was_presented() -> None:
    """Neither a key nor a path comes back."""
    server = Server(access())
    for path, key in [("/v1/models", "canary"), ("/server_info", "canary"), ("/canary", None)]:
        reply = await server.ask(path, key=key)
        assert b"canary" not in reply.body


async def test_refused_requests_are_counted_by_reason() -> None:
    """All reasons are there from the start, so that the series exist."""
    server = Server(access())
    assert dict(server.guard.refused) == dict.fromkeys(REASONS, 0)
    asked: Iterable[tuple[str, str, str | None]] = [
        ("/closed/route", "GET", None), ("/health", "POST", None), ("/v1/models", "GET", None),
        ("/v1/models", "GET", "wrong"), ("/server_info", "GET", VIEWER),
    ]  # fmt: skip
    for path, method, key in asked:
        await server.ask(path, method, key)
    counted = {reason: number for reason, number in server.guard.refused.items() if number}
    assert counted == {"route": 1, "method": 1, "no_key": 1, "wrong_key": 1, "role": 1}
    with pytest.raises(TypeError):
        server.guard.refused["route"] = 0  # type: ignore[index]


CLOSED = {"table": RouteTable.from_environment({"HEADWAY_CLOSED_ROUTES": "/metrics"})}


@pytest.mark.parametrize(
    ("keys", "statuses"), [(Keys(), [401, 401, 200, 200, 200]), (None, [401, 401, 401, 200, 200])], ids=["keys", "none"]
)
async def test_a_closed_route_takes_a_key_or_a_token(keys: Keys | None, statuses: list[int]) -> None:
    """Nobody, a wrong key, a tenant, a viewer, the operator; without keys a token only."""
    server = Server(access(keys=keys, **CLOSED))
    assert [(await server.ask("/metrics", key=key)).status for key in HOLDERS.values()] == statuses
    assert (await server.ask("/health")).status == 200


async def test_a_locked_address_cannot_use_a_closed_route_with_a_right_token() -> None:
    """Else it would learn which guess was right."""
    server = Server(access(keys=None, **CLOSED))
    for _ in range(MOST_WRONG):
        await server.ask("/metrics", key="wrong")
    assert (await server.ask("/metrics", key=VIEWER)).status == 429
