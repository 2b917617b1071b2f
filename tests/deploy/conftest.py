"""Fixtures of the tests of the set-up and of the deployment files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

INSTALLED_BY_SETUP = {"promtool", "prometheus", "prometheus-alertmanager", "chromium"}


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """Where a program is; skips where it is not, and fails in CI if the set-up should have installed it."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is None and os.environ.get("CI") and name in INSTALLED_BY_SETUP:
            pytest.fail(f"{name} is not here, though `make test` installs it")
        if path is None:
            pytest.skip(f"{name} is not installed")
        return path

    return find
