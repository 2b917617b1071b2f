"""A fixed reply: a text of the operator's that answers diverted requests, in place of another model.

The counterpart of ``FallbackClient``. The answer has the form of OpenAI's two generating routes, whole or as an event
stream, with the name of the model as asked for and the text in each choice. The reply counts no tokens, and its
``x-headway-degraded: fixed_reply`` says that no model wrote it. Of the request only the model's name is repeated; what
shapes a model's answer (a length, a schema, tools) has no effect, and is not checked. Requests of the ``late_classes``
get it in the place of a time-out, too, as long as nothing of an answer was sent.

A request whose ``n`` or model's name is wrong, or beyond its bound, is not answered here: it queues, or gets its
refusal.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headway.fallback.answer import ClientAnswer, ClientGoneError, ForwardResult
from headway.fallback.client import HOP_HEADER, MAX_REQUEST_BYTES, ROUTES, json_object
from headway.fallback.diverted_request import DivertedRequest
from headway_policies.fallback import CircuitBreaker, Degradation

MAX_CHOICES = 128
MAX_MODEL_CHARS = 256


class FixedReply:
    """A target that answers with one text. The target cannot fail, so its circuit breaker stays closed."""

    model = "fixed reply"
    degradation = Degradation.FIXED_REPLY

    def __init__(self, text: str, late_classes: Collection[str] = ()) -> None:
        self.text = text
        self.late_classes = frozenset(late_classes)
        self.breaker = CircuitBreaker()
        self.in_flight = 0

    def takes(self, path: str, headers: Mapping[str, str]) -> bool:
        """Decide as ``FallbackClient``: another Headway that forwards a request would pass the text on as a model's."""
        return path in ROUTES and HOP_HEADER not in headers

    async def serve(self, request: DivertedRequest) -> ForwardResult:
        """Answer at once."""
        form = _read(request.path, request.body) if self.takes(request.path, request.headers) else None
        if form is None:
            return ForwardResult.NOT_SERVED
        answer = ClientAnswer(request, self.degradation)
        try:
            if form.streams:
                await answer.events(b"".join(form.events(self.text)))
                await answer.end()
            else:
                await answer.whole(form.whole(self.text))
        except ClientGoneError:
            return ForwardResult.CLIENT_GONE
        return ForwardResult.SERVED

    async def close(self) -> None:
        """Do nothing: there is no connection."""


@dataclass(frozen=True, slots=True)
class _AnswerForm:
    """The form of the answer that a request asks for; ``counts``: the stream ends with the usage."""

    chat: bool
    streams: bool
    counts: bool
    choices: int
    model: str

    def whole(self, text: str) -> bytes:
        """The body of an answer that is no stream."""
        said = {"message": {"role": "assistant", "content": text, "refusal": None}} if self.chat else {"text": text}
        choices = [_choice(index, said) for index in range(self.choices)]
        return _json({**self._head(), "choices": choices, "usage": _no_tokens()})

    def events(self, text: str) -> Iterator[bytes]:
        """The events of a stream, with an event for each choice."""
        said = {"delta": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        head = self._head() | ({"usage": None} if self.counts else {})
        for index in range(self.choices):
            yield _event({**head, "choices": [_choice(index, said)]})
        if self.counts:
            yield _event({**head, "choices": [], "usage": _no_tokens()})
        yield b"data: [DONE]\n\n"

    def _head(self) -> dict[str, Any]:
        kind = "text_completion" if not self.chat else "chat.completion.chunk" if self.streams else "chat.completion"
        name = f"{'chatcmpl' if self.chat else 'cmpl'}-{uuid.uuid4().hex}"
        return {"id": name, "object": kind, "created": int(time.time()), "model": self.model}


def _read(path: str, body: bytes) -> _AnswerForm | None:
    """The form of the answer, as the body states it; None where the request cannot be answered in that form."""
    request = json_object(body, MAX_REQUEST_BYTES)
    if request is None:
        return None
    model, options = request.get("model") or "", request.get("stream_options")
    choices = _choices(request)
    if not isinstance(model, str) or len(model) > MAX_MODEL_CHARS or not 0 < choices <= MAX_CHOICES:
        return None
    counts = isinstance(options, dict) and options.get("include_usage") is True
    return _AnswerForm(ROUTES[path] == "/chat/completions", request.get("stream") is True, counts, choices, model)


def _choices(request: Mapping[str, Any]) -> int:
    """The requested choices, ``n`` for each prompt; 0 if ``n`` is no number, or prompts are embeddings."""
    number, prompt = request.get("n"), request.get("prompt")
    if number is None:
        number = 1
    if type(number) is not int or request.get("prompt_embeds"):
        return 0
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        number *= len(prompt)
    return number


def _choice(index: int, said: Mapping[str, Any]) -> dict[str, Any]:
    return {"index": index, **said, "logprobs": None, "finish_reason": "stop"}


def _no_tokens() -> dict[str, int]:
    return {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def _event(value: Mapping[str, Any]) -> bytes:
    return b"data: " + _json(value) + b"\n\n"


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
