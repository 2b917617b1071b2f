"""The service tier in a response: the one really used, where the request named one.

vLLM 0.32 leaves ``service_tier`` of a chat or a completion null, repeats in a response (``/v1/responses``) what was
asked for, and has none in chunks and in Anthropic's usage. The tier is written in:

    chat, completions   the field of the answer; of a stream, into its first chunk
    responses           the field of the response; of a stream, of each event that carries the response
    messages            ``usage.service_tier`` in Anthropic's words; of a stream, of its first event

Only the object that holds the field is taken apart, into its keys and the bytes of their values, so the text of an
answer is copied and never parsed. An answer of another form than vLLM's is passed on as it is.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import msgspec
from starlette.datastructures import MutableHeaders
from starlette.types import Message

from headway.openai.routes import Api, route_at

_FIELD = "service_tier"
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_CHUNK = b'data: {"id":'
_DATA = b"data: "

#: OpenAI's tiers in Anthropic's answers; any other is the standard one.
_ANTHROPIC = {"priority": "priority", "flex": "batch"}


class TierEcho:
    """Writes the tier into the messages of one response. ``tier`` is in OpenAI's words, those of its answers."""

    def __init__(self, path: str, tier: str) -> None:
        api = route_at(path).api
        self._messages, self._responses = api is Api.ANTHROPIC, api is Api.RESPONSES
        words = _ANTHROPIC.get(tier, "standard") if self._messages else tier
        self._tier = msgspec.Raw(msgspec.json.encode(words))
        self._streams = self._over = False

    def write(self, messages: list[Message]) -> list[Message]:
        """The next messages of the response with the tier in them; the first call begins with its start."""
        if messages and messages[0]["type"] == "http.response.start":
            self._begin(messages[0])
        if self._over:
            return messages
        if self._streams:
            return [self._event(message) for message in messages]
        self._over = True
        return self._whole(messages)

    def _begin(self, start: Message) -> None:
        kind = MutableHeaders(scope=start).get("content-type", "")
        self._streams = kind.startswith("text/event-stream")
        self._over = start["status"] >= HTTPStatus.BAD_REQUEST or not (self._streams or "json" in kind)

    def _whole(self, messages: list[Message]) -> list[Message]:
        """An answer whose body came in one piece, with its new length."""
        if len(messages) != 2 or messages[1].get("more_body", False):
            return messages
        start, last = messages
        try:
            body = self._put(last["body"], ("usage",) if self._messages else (), new=self._messages)
        except (msgspec.MsgspecError, KeyError):
            return messages
        headers = MutableHeaders(scope=start)
        if "content-length" in headers:
            headers["content-length"] = str(len(body))
        return [start, {**last, "body": body}]

    def _event(self, message: Message) -> Message:
        """A message of a stream: one event."""
        body: bytes = message.get("body", b"")
        if self._over or not self._carries(body):
            return message
        way = ("response",) if self._responses else ("message", "usage") if self._messages else ()
        head, mark, text = body.partition(_DATA)
        try:
            text = self._put(text, way, new=not self._responses)
        except (msgspec.MsgspecError, KeyError):
            return message
        self._over = not self._responses
        return {**message, "body": head + mark + text + b"\n\n"}

    def _carries(self, event: bytes) -> bool:
        """Whether a text is an event with the field; quotes in strings are escaped, so no string matches."""
        if self._responses:
            return b'"response":{' in event
        return b'"type":"message_start"' in event if self._messages else event.startswith(_CHUNK)

    def _put(self, text: bytes | msgspec.Raw, way: tuple[str, ...], *, new: bool) -> bytes:
        """The JSON of an object with the tier in the object that these keys lead to; ``new``: which lacks the field.

        Raises KeyError or MsgspecError where there is no such object, or no field.
        """
        fields = _OBJECT.decode(text)
        if way:
            fields[way[0]] = msgspec.Raw(self._put(fields[way[0]], way[1:], new=new))
        elif new or _FIELD in fields:
            fields[_FIELD] = self._tier
        else:
            raise KeyError(_FIELD)
        return msgspec.json.encode(fields)
