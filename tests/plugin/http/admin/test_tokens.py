"""Tokens: which are long enough, and that each opens what its own role allows."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.api.routes import Role
from headway.errors import HeadwayError
from headway.http.admin.tokens import Tokens
from headway.settings import MIN_TOKEN_CHARS

SHORTEST = "k" * MIN_TOKEN_CHARS


def test_one_token_cannot_have_both_roles() -> None:
    """The issue names both variables, and not the token."""
    with pytest.raises(HeadwayError) as caught:
        Tokens.from_environment({"HEADWAY_ADMIN_TOKEN": SHORTEST, "HEADWAY_VIEWER_TOKEN": SHORTEST})
    assert str(caught.value) == "HEADWAY_VIEWER_TOKEN: must differ from HEADWAY_ADMIN_TOKEN"
    both = Tokens.from_environment({"HEADWAY_ADMIN_TOKEN": SHORTEST, "HEADWAY_VIEWER_TOKEN": "v" * 32})
    assert [both.role(f"Bearer {one}") for one in (SHORTEST, "v" * 32)] == [Role.OPERATOR, Role.VIEWER]


@pytest.mark.parametrize("header", ["Bearer  {}", "bearer {}", "BEARER {} "])
def test_spaces_and_letter_case_around_a_token_do_not_matter(header: str) -> None:
    """The scheme is compared without its case, as RFC 9110 has it."""
    assert Tokens({SHORTEST: Role.VIEWER}).role(header.format(SHORTEST)) is Role.VIEWER


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", SHORTEST, "Basic {}", "x Bearer {}"])
def test_whatever_is_no_bearer_token_has_no_role(header: str | None) -> None:
    """Another scheme, none, or words before it."""
    assert Tokens({SHORTEST: Role.VIEWER}).role(None if header is None else header.format(SHORTEST)) is None


def test_the_error_for_a_weak_token_states_what_is_needed() -> None:
    """How many characters, and how to make one."""
    with pytest.raises(HeadwayError, match=r"\b32\b.* printable ASCII characters without spaces .*; .*openssl rand"):
        Tokens.from_environment({"HEADWAY_ADMIN_TOKEN": "short"})


def test_a_file_that_cannot_be_read_is_a_token_error(tmp_path: Path) -> None:
    """The error names the file; a file that can be read gives its token."""
    path = tmp_path / "token"
    with pytest.raises(HeadwayError, match=str(path)):
        Tokens.from_environment({"HEADWAY_ADMIN_TOKEN_FILE": str(path)})
    path.write_text(f"{SHORTEST}\n", encoding="utf-8")
    assert Tokens.from_environment({"HEADWAY_ADMIN_TOKEN_FILE": str(path)}).role(f"Bearer {SHORTEST}") is Role.OPERATOR


@given(st.text(max_size=60) | st.sampled_from([SHORTEST, "v" * 32, SHORTEST[:-1] + "x", SHORTEST + "k"]))
def test_every_token_is_compared_in_constant_time_whatever_was_sent(sent: str) -> None:
    """By digests of one length, with the comparison that does not stop early, and all of them after a match too."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(known: bytes, given_digest: bytes) -> bool:
        compared.append((known, given_digest))
        return hmac.compare_digest(known, given_digest)

    roles = {SHORTEST: Role.OPERATOR, "v" * 32: Role.VIEWER}
    tokens = Tokens(roles)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("headway.http.admin.tokens.secrets.compare_digest", compare)
        role, token_id = tokens.identify(f"Bearer {sent}")
    assert role is roles.get(sent.strip())
    digest = hashlib.sha256(sent.strip().encode()).digest()
    assert [len(known) for known, _ in compared] == [32, 32]
    assert {given_digest for _, given_digest in compared} == {digest}
    assert token_id == digest.hex()[:8]


@pytest.mark.parametrize("header", [None, "Bearer " + "x" * 1000], ids=["none", "too long"])
def test_what_is_not_hashed_has_no_id(header: str | None) -> None:
    """No token, or a header beyond its bound."""
    assert Tokens({SHORTEST: Role.VIEWER}).identify(header) == (None, "")
