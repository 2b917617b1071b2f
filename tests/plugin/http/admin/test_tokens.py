"""Tokens: which are long enough, and that each opens what its own role allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.api.routes import Role
from headway.http.admin.tokens import MIN_TOKEN_CHARS, TokenError, Tokens

SHORTEST = "k" * MIN_TOKEN_CHARS


def test_a_token_of_exactly_the_least_length_is_taken() -> None:
    """32 characters are enough, 31 are not."""
    tokens = Tokens.from_environment({"HEADWAY_ADMIN_TOKEN": SHORTEST})
    assert tokens.role(f"Bearer {SHORTEST}") is Role.OPERATOR
    with pytest.raises(TokenError):
        Tokens.from_environment({"HEADWAY_ADMIN_TOKEN": SHORTEST[1:]})


def test_tokens_are_read_from_the_environment_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless another one is handed in; without any token the admin API is off."""
    monkeypatch.setenv("HEADWAY_VIEWER_TOKEN", SHORTEST)
    assert Tokens.from_environment().role(f"Bearer {SHORTEST}") is Role.VIEWER
    assert not Tokens.from_environment({})


def test_one_token_cannot_have_both_roles() -> None:
    """The issue names both variables, and not the token."""
    with pytest.raises(TokenError) as caught:
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
    with pytest.raises(TokenError, match=r"\b32\b.* printable ASCII characters without spaces; .*openssl rand"):
        Tokens.from_environment({"HEADWAY_ADMIN_TOKEN": "short"})


def test_a_token_of_512_characters_is_taken() -> None:
    """Whatever bound there is on the length lies not below that."""
    assert Tokens.from_environment({"HEADWAY_ADMIN_TOKEN": "k" * 512}).role(f"Bearer {'k' * 512}") is Role.OPERATOR


def test_a_file_that_cannot_be_read_is_a_token_error(tmp_path: Path) -> None:
    """It names the file; a file that can be read gives its token."""
    path = tmp_path / "token"
    with pytest.raises(TokenError, match=str(path)):
        Tokens.from_environment({"HEADWAY_ADMIN_TOKEN_FILE": str(path)})
    path.write_text(f"{SHORTEST}\n", encoding="utf-8")
    assert Tokens.from_environment({"HEADWAY_ADMIN_TOKEN_FILE": str(path)}).role(f"Bearer {SHORTEST}") is Role.OPERATOR
