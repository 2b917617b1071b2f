"""A running stub of the admin API, the environment of a user with its token, and a stand-in for vLLM's launcher."""

from __future__ import annotations

import os
import socket
import sys
import types
from collections.abc import Iterator

import pytest
from admin_stand_in import TOKEN, Stub, admin_stand_in

from headway.errors import NoEngineError
from headway_tools.cli import serve as serve_command
from headway_tools.console import preflight


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


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Stand in for the launcher; the list holds what it was called with."""
    calls: list[tuple[str, ...]] = []
    module = types.ModuleType("headway.vllm_adapter.launch")

    def serve(words: tuple[str, ...]) -> int:
        calls.append(tuple(words))
        if "--fail" in words:
            raise NoEngineError("the engine did not start: out of memory")
        return 0

    module.serve = serve  # type: ignore[attr-defined] # a module made here
    monkeypatch.setitem(sys.modules, "headway.vllm_adapter.launch", module)
    import headway.vllm_adapter

    monkeypatch.setattr(headway.vllm_adapter, "launch", module, raising=False)
    monkeypatch.setattr(preflight, "check_vllm", lambda: None)
    monkeypatch.setattr(serve_command, "cpu_backend", lambda: False)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    return calls


@pytest.fixture
def port() -> str:
    """A free loopback port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])
