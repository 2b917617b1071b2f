"""Which events of a stream stand for a token: of every route's own form, in whatever pieces they come."""

from __future__ import annotations

import pytest

from headway.router.forwarding.token_events import TokenEvents, is_comment

CHUNK = b'data: {"choices":[{"delta":{"content":"a data: b"}}]}\n\n'
CREATED = b'event: response.created\ndata: {"type":"response.created"}\n\n'
TEXT = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"a"}\n\n'
START = b'event: message_start\ndata: {"type":"message_start"}\n\n'


@pytest.mark.parametrize(
    ("target", "part", "tokens"),
    [
        ("/v1/chat/completions", CHUNK, 1),
        ("/v1/chat/completions?a=1", CHUNK * 3, 3),
        ("/v1/completions", b'": "a"}\n\n' + CHUNK, 1),
        ("/v1/completions", CHUNK + b"data: [DONE]\n\n", 0),
        ("/v1/responses", CREATED, 0),
        ("/v1/responses", TEXT, 1),
        ("/v1/responses", b'event: response.completed\ndata: {"type":"response.completed","delta":1}\n\n', 0),
        ("/v1/messages", START, 0),
        ("/v1/messages", b'data: {"type":"content_block_delta"}\n\n', 1),
        (
            "/v1/messages?beta=true",
            b'data: {"type":"message_delta"}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n',
            0,
        ),
        ("/v1/completions", b"", 0),
    ],
)
def test_a_token_is_an_event_of_its_own(target: str, part: bytes, tokens: int) -> None:
    """Not the text of one, not what is sent before the engine has begun, nor with the last token."""
    assert TokenEvents(target, streams=True).count(part) == tokens
    assert TokenEvents(target, streams=False).count(part) == 0


@pytest.mark.parametrize(
    ("part", "comment"),
    [(b":\n\n", True), (b": ping\n\n: ping\n\n", True), (b":\n\n" + CHUNK, False), (b":\n\n" + START, False),
     (CHUNK, False), (START, False), (b"", False)],
)  # fmt: skip
def test_a_comment_is_no_event(part: bytes, comment: bool) -> None:
    """A comment keeps a connection alive while there is no token; one with the first event is an event."""
    assert is_comment(part) is comment
