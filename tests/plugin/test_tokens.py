"""Tokens: which are long enough, and that each opens what its own role allows."""

from __future__ import annotations

import pytest

from headway.http.tokens import MIN_TOKEN_CHARS, Role, TokenError, Tokens

SHORTEST = "k" * MIN_TOKEN_CHARS


def test_a_token_of_exactly_the_least_length_is_taken() -> None:
    """32 characters are enough, 31 are not."""
    tokens = Tokens.from_environment({"HEADWAY_ADMIN_TOKEN": SHORTEST})
    assert tokens.role(f"Bearer {SHORTEST}") is Role.OPERATOR
    with pytest.raises(TokenError):
        Tokens.from_environment({"HEADWAY_ADMIN_TOKEN": SHORTEST[1:]})
