"""What the tests with the installed vLLM share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def root_levels() -> Iterator[None]:
    """Some releases set the levels of the root logger and its handlers when they are imported."""
    root = logging.getLogger()
    levels = [(logger, logger.level) for logger in (root, *root.handlers)]
    yield
    for logger, level in levels:
        logger.setLevel(level)
