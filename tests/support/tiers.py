"""The two tiers of the tests: what a commit must pass, and the long form of every night (``make test-long``)."""

from __future__ import annotations

import os

import pytest

#: Whether this is the long form.
LONG = bool(os.environ.get("HEADWAY_LONG_TESTS"))


def long_form(why: str) -> pytest.MarkDecorator:
    """A test of the long form alone; the reason says what keeps its promise on a commit."""
    return pytest.mark.skipif(not LONG, reason=f"the long form: {why}")
