"""Fixtures of the dashboard's tests: a stub server, and servers that misbehave."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest
import streamlit as st
from silent_server import silent_server
from streamlit import config
from streamlit.components.v2 import manifest_scanner
from stub_server import StubServer

from headway_dashboard.server import OPTIONS


@pytest.fixture(scope="session", autouse=True)
def components() -> Iterator[None]:
    """What is installed is not looked through for components by each page that a test opens: it costs more than the
    page, and the dashboard registers its own. As in the dashboard, no use of Streamlit is counted."""
    counted = "browser.gatherUsageStats"
    before = st.get_option(counted)
    config.set_option(counted, OPTIONS[counted])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", list)
        yield
    config.set_option(counted, before)


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    """Pages that a test opens listen where the dashboard does unless it is told otherwise: on the loopback."""
    before = st.get_option("server.address")
    config.set_option("server.address", OPTIONS["server.address"])
    yield
    config.set_option("server.address", before)


@pytest.fixture
def stub() -> Iterator[StubServer]:
    """A stub server whose state a test changes by hand."""
    with StubServer() as server:
        yield server


@pytest.fixture
def black_hole() -> Iterator[str]:
    """An address that accepts connections and never answers."""
    with silent_server() as url:
        yield url


@pytest.fixture
def nobody() -> str:
    """An address on which no server listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    """Wait until a condition holds; fail after a minute."""

    def wait(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
        ends_s = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < ends_s, "the condition never held"
            time.sleep(0.1)

    return wait
