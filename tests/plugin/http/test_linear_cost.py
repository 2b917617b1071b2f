"""Every loop and pattern over a client's bytes: sixteen times the size costs about sixteen times as much at most."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from cost_growth import assert_linear
from small_presets import small_preset

from headway.api_errors import BadRequest
from headway.http.admin.tokens import MAX_TOKEN_CHARS, Role, TokenError, Tokens, read_token
from headway.http.inference import timeouts
from headway.http.inference.request_info import read_request_info
from headway.http.limits import json_shape
from headway.http.limits.json_shape import JsonShape
from headway.openai.routes import route_at
from headway_policies import Preset

PRESET, BY_PREFIX = small_preset(), small_preset(inside="prefix")

#: Bodies of about this many bytes; what they are meant to slow down is their name.
BODIES: dict[str, Callable[[int], bytes]] = {
    "one text": lambda size: b'{"prompt": "' + b"a" * size + b'"}',
    "files": lambda size: b'["' + b'data:;base64,A","' * (size // 17),
    "files without an end": lambda size: b'"data:' + b";base64," * (size // 8),
    "limits before blanks": lambda size: (b'"max_tokens"' + b" " * 1000) * (size // 1012),
    "one limit before blanks": lambda size: b'"max_tokens"' + b" " * size,
    "limits between blanks": lambda size: (b'"max_tokens"' + b" " * 500 + b":" + b" " * 500) * (size // 1013),
    "streams before blanks": lambda size: (b'"stream"' + b" " * 500 + b":" + b" " * 500) * (size // 1009),
    "prompts before blanks": lambda size: (b'"prompt"' + b" " * 500 + b":" + b" " * 500) * (size // 1009),
    "models before blanks": lambda size: (b'"model"' + b" " * 500 + b":" + b" " * 500) * (size // 1008),
    "salts": lambda size: b'"cache_salt":"' * (size // 14),
    "conversations before blanks": lambda size: (b'"messages"' + b" " * 1000) * (size // 1010),
    "conversations": lambda size: b'"messages":"instructions":"input":' * (size // 34),
    "limits": lambda size: b'"max_tokens":1,' * (size // 15),
    "hints": lambda size: b'"max_' * (size // 5),
    "digits": lambda size: b'{"max_tokens": ' + b"1" * size + b"}",
    "escapes": lambda size: b'{"a": "' + b"\\u0041" * (size // 6) + b'"}',
    "torn escapes": lambda size: b'{"a": "' + b"\\u004" * (size // 5) + b'"}',
    "backslashes": lambda size: b'{"a": "' + b"\\" * size,
    "quotes": lambda size: b'"' * size,
    "objects": lambda size: b"{}," * (size // 3),
    "arrays": lambda size: b"[" * size,
    "numbers": lambda size: b"[" + b"1," * (size // 2) + b"1]",
    "tiers": lambda size: b'{"service_tier": "' + b'x", "service_tier": "' * (size // 22) + b'"}',
}


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/v1/responses"])
@pytest.mark.parametrize("preset", [PRESET, BY_PREFIX], ids=["usual", "by prefix"])
@pytest.mark.parametrize("shape", BODIES)
def test_to_identify_a_request_costs_no_more_than_its_body_is_long(shape: str, preset: Preset, path: str) -> None:
    """Every pattern, search and count over a JSON body is linear in its bytes."""

    def work(size: int) -> Callable[[], object]:
        body = BODIES[shape](size)
        return lambda: read_request_info({}, route_at(path), body, preset)

    assert_linear(work, 16 * 1024)


@pytest.mark.parametrize("shape", BODIES)
def test_to_count_a_body_costs_no_more_than_it_is_long(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The structure of any body is counted in linear time, also where nothing stops it early."""
    for bound in ("MAX_BRACKETS", "MAX_STRINGS", "MAX_COMMAS", "MAX_BARE_BYTES", "MAX_DEPTH"):
        monkeypatch.setattr(json_shape, bound, 1 << 60)

    def work(size: int) -> Callable[[], object]:
        body = BODIES[shape](size)
        return lambda: JsonShape().feed(body)

    assert_linear(work, 64 * 1024)


VALUES = {"digits": "1", "points": ".", "blanks": " ", "parts": "1s", "letters": "m", "signs": "-", "exponents": "1e"}


@pytest.mark.parametrize("unit", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("read", [timeouts.seconds, timeouts.milliseconds, timeouts.duration, timeouts.grpc])
def test_to_read_a_timeout_costs_no_more_than_it_is_long(read: Callable[[str], float], unit: str) -> None:
    """Whatever stands in it, and although no longer value than 64 characters gets there."""

    def work(size: int) -> Callable[[], object]:
        value = unit * (size // len(unit))
        return lambda: read(value)

    assert_linear(work, 4 * 1024)


@pytest.mark.parametrize("header", sorted(timeouts.TIMEOUT_HEADERS | {"x-headway-class", "x-headway-tenant"}))
def test_to_refuse_a_long_header_costs_no_more_than_it_is_long(header: str) -> None:
    """A value over its bound is not read at all."""

    def work(size: int) -> Callable[[], object]:
        headers = {header: "1" * size}

        def refused() -> None:
            with suppress(BadRequest):
                read_request_info(headers, route_at("/v1/completions"), b"{}", PRESET)

        return refused

    assert_linear(work, 4 * 1024)


def test_to_try_a_token_costs_no_more_than_it_is_long() -> None:
    """A guess of any length is one digest at most."""
    tokens = Tokens({"a" * 32: Role.OPERATOR})

    def work(size: int) -> Callable[[], object]:
        authorization = "Bearer " + "a" * size
        return lambda: tokens.role(authorization)

    assert_linear(work, 16 * 1024)


def test_a_guess_longer_than_any_token_is_not_digested(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused by its length, and a token that is one too long is not taken for its beginning."""
    tokens = Tokens({"a" * MAX_TOKEN_CHARS: Role.OPERATOR})
    assert tokens.role("Bearer " + "a" * MAX_TOKEN_CHARS) is Role.OPERATOR
    assert tokens.role("Bearer " + "a" * (MAX_TOKEN_CHARS + 1)) is None
    assert tokens.role("Bearer " + "a" * (MAX_TOKEN_CHARS + 2)) is None
    sizes: list[int] = []
    monkeypatch.setattr("headway.http.admin.tokens._digest", lambda token: sizes.append(len(token)) or b"")
    tokens.role("Bearer " + "a" * 30_000)
    assert sizes == []


def test_a_token_that_could_never_be_sent_whole_is_refused_at_the_start() -> None:
    """512 characters are allowed, one more is not."""
    assert read_token("HEADWAY_ADMIN_TOKEN", {"HEADWAY_ADMIN_TOKEN": "a" * MAX_TOKEN_CHARS})
    with pytest.raises(TokenError, match="32 to 512 printable"):
        read_token("HEADWAY_ADMIN_TOKEN", {"HEADWAY_ADMIN_TOKEN": "a" * (MAX_TOKEN_CHARS + 1)})
