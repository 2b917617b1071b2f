"""The table of vLLM's routes: how a request finds its row."""

from __future__ import annotations

import pytest

from headway.openai.routes import UNKNOWN, ends_stream, route_at, route_of


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/chat/completions/", "/v1/chat/completions"),
        ("/behind/a/proxy/v1/chat/completions/batch", "/v1/chat/completions/batch"),
        ("/v7/chat/completions", "/v1/chat/completions"),
        ("/v7/completions", "/v1/completions"),
        ("/other/v2/rerank", "/v2/rerank"),
        ("/v2/chat", "/cohere/v2/chat"),
    ],
)
def test_a_route_is_found_by_the_end_of_the_path(path: str, route: str) -> None:
    """A proxy may add a prefix, an operator may open another version; the longest end counts."""
    assert route_at(path).path == route


@pytest.mark.parametrize("path", ["", "/", "//", "completions", "/v1/xcompletions", "/v1/completions/x", "/health"])
def test_a_path_without_a_row_is_unknown(path: str) -> None:
    """The path has the least: no method, the operator's access, the smallest body, no seat."""
    assert route_at(path) is UNKNOWN
    assert not UNKNOWN.allows("POST")


def test_a_request_looks_its_route_up_once() -> None:
    """The scope keeps it."""
    scope = {"path": "/v1/messages"}
    found = route_of(scope)
    scope["path"] = "/other"
    assert route_of(scope) is found is route_at("/v1/messages")


@pytest.mark.parametrize(
    ("part", "ends"),
    [
        (b"data: [DONE]\n\n", True),
        (b'data: {"id": 1}\n\ndata: [DONE]\n\n', True),
        (b'event: message_stop\ndata: {"type":"message_stop"}\n\n', True),
        (b'event: response.completed\ndata: {"type":"response.completed"}\n\n', True),
        (b'event: response.created\ndata: {"metadata":{"type":"response.completed"}}\n\n', False),
        (b'data: {"tool_calls":[{"function":{"name":"message_stop"}}]}\n\n', False),
        (b'data: {"content":"data: [DONE]"}\n\n', False),
        (b"", False),
    ],
)
def test_only_the_beginning_of_a_line_ends_a_stream(part: bytes, ends: bool) -> None:
    """Within the data a client's own words may say the same: those end no check of the operator's."""
    assert ends_stream(part) is ends
