"""The key ring: which key is whose, from which header, and until when."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.keys import Key, KeyRing, digest_of
from headway.keys import key_ring as module
from headway.keys.key_ring import MAX_HEADER_CHARS, is_key, new_key
from headway_policies.entitlement import Entitlement

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
ENDS = datetime(2026, 2, 1, tzinfo=UTC)
NOW_S = datetime(2026, 1, 15, tzinfo=UTC).timestamp()
TEAM, OTHER = Entitlement("team", frozenset({"normal"})), Entitlement("other")
#: In the form of a key, and the same in each process that collects these tests.
FIRST, SECOND, SHORT = (f"hw-{letter}{'Zz9_-' * 8}xy" for letter in "ABC")
RING = KeyRing(
    [
        Key("team-1", digest_of(FIRST), "team", CREATED),
        Key("other-1", digest_of(SECOND), "other", CREATED),
        Key("team-2", digest_of(SHORT), "team", CREATED, ENDS),
    ],
    {"team": TEAM, "other": OTHER, "without a key": Entitlement("without a key")},
)


@pytest.mark.parametrize(
    ("authorization", "x_api_key", "found"),
    [
        (f"Bearer {FIRST}", None, ("team-1", TEAM)),
        (f"bearer   {SECOND} ", None, ("other-1", OTHER)),
        (None, FIRST, ("team-1", TEAM)),
        ("Basic dTpw", SECOND, ("other-1", OTHER)),
        (f"Bearer {SECOND}", FIRST, ("other-1", OTHER)),
        ("Bearer wrong", FIRST, ("team-1", TEAM)),
        (f"Bearer {SHORT}", None, ("team-2", TEAM)),
        (f"Basic {FIRST}", None, None),
        (FIRST, None, None),
        (f"Bearer{FIRST}", None, None),
        (None, f"Bearer {FIRST}", None),
        (f"Bearer {FIRST[:-1]}", None, None),
        (f"Bearer {FIRST.upper()}", None, None),
        (f"Bearer {digest_of(FIRST).hex()}", None, None),
        ("Bearer ", "", None),
        ("", None, None),
        (None, None, None),
        ("Bearer k\udce4\xe4", "\udce4", None),
    ],
)
def test_a_known_key_in_either_header_is_found(
    authorization: str | None, x_api_key: str | None, found: tuple[str, Entitlement] | None
) -> None:
    """Bearer for the one, the bare key for the other; everything else is unknown, and raises nothing."""
    assert RING.entitlement_of(authorization, x_api_key, NOW_S) == found


def test_a_key_is_unknown_from_the_second_in_which_it_expires() -> None:
    """Until then it is as good as any other."""
    assert RING.entitlement_of(None, SHORT, ENDS.timestamp() - 0.001) == ("team-2", TEAM)
    assert RING.entitlement_of(None, SHORT, ENDS.timestamp()) is None
    assert RING.entitlement_of(None, FIRST, 1e12) == ("team-1", TEAM)


@given(authorization=st.none() | st.text(max_size=60), x_api_key=st.none() | st.text(max_size=60))
def test_no_other_header_is_a_key(authorization: str | None, x_api_key: str | None) -> None:
    """Whatever is sent."""
    assert RING.entitlement_of(authorization, x_api_key, NOW_S) is None


def test_a_header_that_is_too_long_is_not_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The right key with very many spaces before it is refused like any other long header."""
    hashed: list[str] = []
    monkeypatch.setattr(module, "digest_of", lambda key: hashed.append(key) or digest_of(key))
    long = "x" * (MAX_HEADER_CHARS + 1)
    assert RING.entitlement_of(f"Bearer {long}", long, NOW_S) is None
    assert RING.entitlement_of("Bearer " + " " * MAX_HEADER_CHARS + FIRST, None, NOW_S) is None
    assert hashed == []
    assert RING.entitlement_of("Bearer wrong", "x" * MAX_HEADER_CHARS, NOW_S) is None
    assert len(hashed) == 2


def test_a_ring_is_a_copy() -> None:
    """Later changes to the tables that it was made from do not matter."""
    tenants = {"team": TEAM}
    ring = KeyRing(iter(RING.keys[:1]), tenants)
    tenants["team"] = OTHER
    assert ring.entitlement_of(None, FIRST, NOW_S) == ("team-1", TEAM)
    assert [key.id for key in ring.keys] == ["team-1"]
    assert dict(ring.tenants) == {"team": TEAM}


def test_a_new_key_has_256_bits_and_needs_no_quoting() -> None:
    """Keys differ; each is recognised where it must not stand."""
    keys = [new_key() for _ in range(50)]
    assert len(set(keys)) == 50
    assert all(re.fullmatch(r"hw-[A-Za-z0-9_-]{43}", key) for key in keys)
    assert all(is_key(key) for key in keys)
    assert not is_key("hw-laptop")
    assert digest_of(keys[0]) == hashlib.sha256(keys[0].encode()).digest()
