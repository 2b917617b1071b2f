"""The bounds of a request: as the environment sets them, and by route."""

from __future__ import annotations

import pytest

from headway.errors import HeadwayError
from headway.http.limits.bounds import MIB, Bounds
from headway.openai.routes import route_at


def test_each_bound_is_a_variable() -> None:
    """A bound that is set is in force."""
    found = Bounds.from_environment(
        {
            "HEADWAY_MAX_HEADER_BYTES": "16384",
            "HEADWAY_MAX_BODY_BYTES": "1000",
            "HEADWAY_MAX_BODIES_BYTES": "2000",
            "HEADWAY_BODY_TIMEOUT_S": "2.5",
            "HEADWAY_MIN_BODY_BYTES_PER_S": "10",
            "HEADWAY_MAX_HEADER_FIELDS": "20",
            "HEADWAY_MAX_CONNECTIONS": "30",
            "HEADWAY_MAX_CONNECTIONS_PER_ADDRESS": "4",
        }
    )
    assert found == Bounds(
        16384, 1000, 2000, 2.5, 10, max_header_fields=20, max_connections=30, max_connections_per_address=4
    )


def test_room_for_all_bodies_grows_with_the_largest() -> None:
    """A larger body alone needs no second variable."""
    assert Bounds.from_environment({"HEADWAY_MAX_BODY_BYTES": str(300 * MIB)}).max_bodies_bytes == 300 * MIB


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("HEADWAY_MAX_BODY_BYTES", "0", "a positive whole number is needed, not '0'"),
        ("HEADWAY_MAX_BODY_BYTES", "32M", "not '32M'"),
        ("HEADWAY_MAX_BODY_BYTES", "9" * 5000, "a positive whole number"),
        ("HEADWAY_MAX_BODY_BYTES", "\u0663", "a positive whole number"),
        ("HEADWAY_MAX_HEADER_BYTES", "1023", "a whole number of at least 1024"),
        ("HEADWAY_MAX_BODIES_BYTES", "1000", r"at least HEADWAY_MAX_BODY_BYTES \(33554432\)"),
        ("HEADWAY_BODY_TIMEOUT_S", "0", "a number of seconds above 0, at most 3600"),
        ("HEADWAY_BODY_TIMEOUT_S", "nan", "a number of seconds"),
        ("HEADWAY_BODY_TIMEOUT_S", "3601", "a number of seconds"),
        ("HEADWAY_BODY_TIMEOUT_S", "soon", "a number of seconds"),
        ("HEADWAY_MIN_BODY_BYTES_PER_S", "-1", "a positive whole number"),
    ],
)
def test_a_wrong_bound_is_one_line_that_names_the_variable(variable: str, value: str, says: str) -> None:
    """At the start, and never at the first request."""
    with pytest.raises(HeadwayError, match=f"^{variable}: .*{says}") as caught:
        Bounds.from_environment({variable: value})
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/chat/completions", 32 * MIB),
        ("/v1/chat/completions/", 32 * MIB),
        ("/behind/a/proxy/v1/messages", 32 * MIB),
        ("/v1/audio/transcriptions", 32 * MIB),
        ("/invocations", 32 * MIB),
        ("/v1/completions", 8 * MIB),
        ("/tokenize", 8 * MIB),
        ("/detokenize", 8 * MIB),
        ("/headway/v1/preset", MIB),
        ("/v1/load_lora_adapter", MIB),
        ("/collective_rpc", MIB),
        ("/", MIB),
    ],
)
def test_a_route_takes_no_more_than_it_needs(path: str, expected: int) -> None:
    """Media, text and ids, the rest; the setting lowers them all."""
    assert Bounds().body_bytes(route_at(path)) == expected
    assert Bounds(max_body_bytes=1000).body_bytes(route_at(path)) == 1000


def test_tensors_as_prompts_are_media() -> None:
    """Where vLLM takes prompt embeddings, completions take the largest body."""
    assert Bounds(prompt_embeds=True).body_bytes(route_at("/v1/completions")) == 32 * MIB
    assert Bounds(prompt_embeds=True).body_bytes(route_at("/tokenize")) == 8 * MIB


@pytest.mark.parametrize(("tokens", "expected"), [(2048, MIB), (128 * 1024, 2 * MIB), (10_000_000, 8 * MIB)])
def test_one_text_is_no_longer_than_several_contexts(tokens: int, expected: int) -> None:
    """A text that is only counted in tokens is bounded by the model; other routes are not."""
    for path in ("/tokenize", "/detokenize"):
        assert Bounds(context_tokens=tokens).body_bytes(route_at(path)) == expected
    assert Bounds(context_tokens=tokens).body_bytes(route_at("/v1/completions")) == 8 * MIB
