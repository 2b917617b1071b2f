"""Marks of the tests that run on the real vLLM engine, and the server with keys that four files share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from strict_server import StrictServer, strict_server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.engine)


@pytest.fixture(scope="session")
def strict(real_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StrictServer]:
    """The server with keys, started once."""
    with strict_server(tmp_path_factory.mktemp("strict")) as started:
        yield started
