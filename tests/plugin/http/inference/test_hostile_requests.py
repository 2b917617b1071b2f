"""Hostile headers and bodies: nothing is raised but a refusal, caps hold, and no class is above the entitled one."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_presets import small_preset
from tiers import LONG

from headway.api_errors import BadRequest
from headway.http.access.identity import Identity
from headway.http.inference.request_info import read_request_info
from headway.http.inference.request_rules import RequestRules
from headway.openai.fields import whole_number
from headway.openai.routes import route_at
from headway_policies.entitlement import Entitlement, RequestCaps

CASES = 20_000 if LONG else 150
PRESET, BY_PREFIX = small_preset(), small_preset(inside="prefix")
ORDER = PRESET.by_urgency()
CAPS = RequestCaps(sequences=4, prompts=3, output_tokens=100, logprobs=5, stops=2, logit_bias=2, tools=1)
PATHS = ("/v1/completions", "/v1/chat/completions", "/v1/chat/completions/batch", "/v1/responses", "/v1/messages",
         "/invocations", "/inference/v1/generate", "/v1/embeddings", "/rerank", "", "/\ud800")  # fmt: skip

WORDS = ("realtime", "normal", "batch", "priority", "fast", "flex", "auto", "scale", "REALTIME", "realtime ", "\u212bx")
NUMBERS = ("1", "5", "-1", "-9223372036854775808", "9" * 30, "\u0665", "\uff15", "1_0", "0x5", "1e9", "nan", "inf", "")
HEADERS = ("x-headway-class", "X-Headway-Class", "x-headway-tenant", "x-headway-queue", "x-vllm-priority", "x-priority",
           "x-request-priority", "x-headway-queue-timeout-seconds", "grpc-timeout", "x-litellm-timeout",
           "x-stainless-read-timeout", "content-type", "x-\u0131")  # fmt: skip
KEYS = ("n", "N", "n ", "\uff4e", "best_of", "max_tokens", "max_completion_tokens", "prompt", "prompt_embeds",
        "messages", "input", "stop", "bad_words", "logit_bias", "logprobs", "tools", "service_tier", "Service_Tier",
        "priority", "PRIORITY", "stream", "background", "sampling_params", "extra_body", "response_format", "text",
        "user", "x-headway-class", "\ud800", "")  # fmt: skip

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(WORDS + NUMBERS + ("\ud800", "\x00", ";base64,", "data:a;base64,")),
    st.text(max_size=8),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


def written(pairs: list[tuple[str, Any]], escaped: bool) -> str:
    """An object with repeated keys, and keys that are escaped needlessly."""
    key = (lambda name: '"' + "".join(f"\\u{ord(one):04x}" for one in name) + '"') if escaped else json.dumps
    return "{" + ",".join(f"{key(name)}: {json.dumps(value)}" for name, value in pairs) + "}"


OBJECTS = st.builds(written, st.lists(st.tuples(st.sampled_from(KEYS), VALUES), max_size=8), st.booleans())
ENCODED = st.builds(
    lambda text, encoding: text.encode(encoding, "surrogatepass"),
    OBJECTS,
    st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-32-le"]),
)
TORN = st.builds(lambda body, at: body[:at] + body[at + 1 :], ENCODED, st.integers(0, 60))
BODIES = st.one_of(ENCODED, TORN, st.binary(max_size=30), st.none())
FIELDS = st.dictionaries(st.sampled_from(HEADERS), st.sampled_from(WORDS + NUMBERS) | st.text(max_size=140), max_size=4)
CLASSES = st.none() | st.frozensets(st.sampled_from(("realtime", "normal", "batch", "unknown")))
IDENTITIES = st.builds(
    lambda classes, default: Identity(Entitlement("acme", classes=classes, default_class=default, share=2.0)),
    CLASSES,
    st.sampled_from((None, "realtime", "normal", "batch", "unknown")),
)


def rank(name: str) -> int:
    """0 is the most urgent."""
    return ORDER.index(name)


def entitled(classes: frozenset[str] | None) -> int:
    """The rank of the most urgent class that a tenant may use."""
    return 0 if classes is None else min((rank(name) for name in classes if name in ORDER), default=len(ORDER) - 1)


def numbers(parsed: dict[str, Any], *names: str) -> list[int]:
    """What the body asks for under these names, at the top and in its sampling parameters."""
    inner = parsed.get("sampling_params")
    levels = [parsed, *([inner] if isinstance(inner, dict) else [])]
    found = [whole_number(level.get(name)) for level in levels for name in names]
    return [number for number in found if number is not None]


def check_refusal(refused: BadRequest) -> None:
    """A status of its own, and a message in one short line."""
    assert refused.status in (400, 413)
    assert len(refused.message) < 300
    assert "\n" not in refused.message


@settings(max_examples=CASES, suppress_health_check=list(HealthCheck))
@given(FIELDS, st.sampled_from(PATHS), BODIES, IDENTITIES, st.booleans(), st.booleans())
def test_whatever_is_sent_raises_no_class_and_passes_no_cap(
    headers: dict[str, str], path: str, body: bytes | None, identity: Identity, strict: bool, by_prefix: bool
) -> None:
    """The only exception is a refusal with a status of its own, and its message is one short line."""
    rules = RequestRules(caps=CAPS, refuse_priority=strict)
    try:
        found = read_request_info(headers, route_at(path), body, BY_PREFIX if by_prefix else PRESET, identity, rules)
    except BadRequest as bad:
        check_refusal(bad)
        return
    assert found.class_name in ORDER
    assert rank(found.class_name) >= entitled(identity.entitlement.classes)
    assert (found.tenant, found.share) == ("acme", 2.0)
    assert found.asked.prompts >= 1
    assert 0 <= (found.max_tokens or 0) <= 100
    assert found.asked.prompt_tokens >= 0
    try:
        parsed = json.loads(body or b"null")
    except ValueError:
        return
    if isinstance(parsed, dict):
        assert max(numbers(parsed, "n", "best_of"), default=0) <= 4
        assert max(numbers(parsed, "max_tokens", "max_completion_tokens"), default=0) <= 100
        assert max(numbers(parsed, "logprobs"), default=0) <= 5
        for name, most in (("stop", 2), ("bad_words", 2), ("logit_bias", 2), ("tools", 1)):
            value = parsed.get(name)
            assert not isinstance(value, list | dict) or len(value) <= most
        texts = parsed.get("prompt")
        assert not isinstance(texts, list) or len(texts) <= 3 or isinstance(texts[0], int | float)
        assert not (strict and ("priority" in parsed or {"x-vllm-priority", "x-priority"} & headers.keys()))
