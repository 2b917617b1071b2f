"""vLLM's own keys, and the key that a request presents."""

from __future__ import annotations

import pytest

from headway.http.access.api_keys import MAX_KEY_CHARS, ApiKeys
from headway.http.access.identity import Credentials


def credentials(*headers: tuple[bytes, bytes]) -> Credentials:
    """Those of a request with these headers."""
    return Credentials.of({"headers": [(b"host", b"x"), *headers]})


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ([(b"authorization", b"Bearer abc")], "abc"),
        ([(b"authorization", b"bearer  abc ")], "abc"),
        ([(b"x-api-key", b"abc")], "abc"),
        ([(b"x-api-key", b"abc"), (b"authorization", b"Bearer other")], "other"),
        ([(b"authorization", b"Bearer first"), (b"authorization", b"Bearer second")], "first"),
        ([(b"authorization", b"Basic abc")], None),
        ([(b"authorization", b"abc")], None),
        ([], None),
    ],
)
def test_the_key_of_a_request(headers: list[tuple[bytes, bytes]], key: str | None) -> None:
    """A Bearer header first, then Anthropic's; of a doubled header the first, as vLLM takes it."""
    assert credentials(*headers).key == key


def test_a_key_is_in_no_repr() -> None:
    """A traceback or a log line would show it."""
    assert "secret" not in repr(credentials((b"authorization", b"Bearer secret"), (b"x-api-key", b"secret")))


def test_every_key_of_vllm_is_known_and_no_other() -> None:
    """Empty ones are none: VLLM_API_KEY may be set to nothing."""
    keys = ApiKeys(["one", "", "two"])
    assert [keys.know(key) for key in ("one", "two", "", "three", None)] == [True, True, False, False, False]
    assert keys
    assert not ApiKeys([""])


def test_vllm_is_given_a_key_that_it_knows() -> None:
    """In the form of its own check."""
    assert ApiKeys(["one", "two"]).inner == b"Bearer one"
    assert ApiKeys().inner is None


def test_a_key_longer_than_any_is_not_hashed() -> None:
    """Even where it would be right."""
    assert ApiKeys(["k" * MAX_KEY_CHARS]).know("k" * MAX_KEY_CHARS)
    assert not ApiKeys(["k" * (MAX_KEY_CHARS + 1)]).know("k" * (MAX_KEY_CHARS + 1))
