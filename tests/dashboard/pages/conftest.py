"""A dashboard whose pages a test opens without a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import streamlit as st
from app_pages import PAGE, clear_settings, opened_alone
from live_stand_in import LiveStandIn
from streamlit.testing.v1 import AppTest
from stub_server import OPERATOR_TOKEN


@pytest.fixture
def watching(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Set which servers are watched, and other variables; the sources that pages share end with the test."""
    clear_settings(monkeypatch)

    def watch(*urls: str, **environment: str) -> None:
        monkeypatch.setenv("HEADWAY_URL", ",".join(urls))
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    yield watch
    st.cache_resource.clear()


@pytest.fixture
def visit(watching: Callable[..., None]) -> Callable[..., AppTest]:
    """Open one page of a dashboard that watches ``url``."""

    def visit(page: str, url: str, **environment: str) -> AppTest:
        watching(url, **environment)
        return opened_alone(page)

    return visit


@pytest.fixture
def control(watching: Callable[..., None]) -> Callable[..., AppTest]:
    """Open the page Control, without the frame above it, of a dashboard that watches ``url``."""

    def visit(url: str, token: str = OPERATOR_TOKEN, name: str = "HEADWAY_ADMIN_TOKEN") -> AppTest:
        watching(url, **({name: token} if token else {}))
        return opened_alone("control", PAGE)

    return visit


@pytest.fixture
def live() -> Iterator[LiveStandIn]:
    """A server with Headway's own admin API."""
    with LiveStandIn() as server:
        yield server
