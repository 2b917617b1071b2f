"""A running stub of the admin API, and the environment of a user with its token."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from admin_stand_in import TOKEN, Stub, admin_stand_in


@pytest.fixture
def stub() -> Iterator[Stub]:
    """A running stand-in."""
    with admin_stand_in() as state:
        yield state


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the developer's own reaches a test."""
    for name in ("URL", "ADMIN_TOKEN", "ADMIN_TOKEN_FILE", "VIEWER_TOKEN", "VIEWER_TOKEN_FILE", "PRESET_DIR"):
        monkeypatch.delenv(f"HEADWAY_{name}", raising=False)
    for name in ("HF_HUB_OFFLINE", "VLLM_PLUGINS", "HEADWAY_KEYS_FILE", "HEADWAY_PRESET", "HEADWAY_WARMUP"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def operator(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Stub:
    """A user whose environment has the stub's address and token."""
    monkeypatch.setenv("HEADWAY_URL", stub.url)
    monkeypatch.setenv("HEADWAY_ADMIN_TOKEN", TOKEN)
    return stub
