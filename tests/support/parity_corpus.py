"""A corpus of requests, each of which a server inside one engine and one in front of an engine must answer alike."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
LIMITS = {
    COMPLETIONS: ("max_tokens",),
    CHAT: ("max_tokens", "max_completion_tokens"),
    RESPONSES: ("max_output_tokens",),
    MESSAGES: ("max_tokens",),
}
JSON = {"content-type": "application/json"}
_TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}},
}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: ``name`` says what is particular. ``gone_after``: its client leaves after so many bytes."""

    name: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)
    method: str = "POST"
    gone_after: int | None = None

    @property
    def label(self) -> str:
        """Route and name."""
        return f"{self.method} {self.path} {self.name}"


def usual(path: str) -> dict[str, Any]:
    """A short valid body of a route that generates."""
    common: dict[str, Any] = {"model": "tiny", "temperature": 0}
    if path == COMPLETIONS:
        return {**common, "prompt": "Say something.", "max_tokens": 4}
    if path == RESPONSES:
        return {**common, "input": "Say something.", "max_output_tokens": 4}
    return {**common, "messages": [{"role": "user", "content": "Say something."}], "max_tokens": 4}


def asked(
    name: str, path: str, *, without: tuple[str, ...] = (), headers: Mapping[str, str] | None = None, **more: Any
) -> Asked:
    """A usual body without some members and with others."""
    body = {key: value for key, value in usual(path).items() if key not in without} | more
    return Asked(name, path, json.dumps(body).encode(), {**JSON, **(headers or {})})


def corpus() -> list[Asked]:
    """All of it, in a fixed order."""
    parts = (_limits(), _sampling(), _shapes(), _wrong(), _headers(), _others(), _cancelled())
    return list(itertools.chain.from_iterable(parts))


def _each() -> Iterator[tuple[str, bool]]:
    yield from itertools.product(LIMITS, (False, True))


def _limits() -> Iterator[Asked]:
    for path, stream in _each():
        for limit in LIMITS[path]:
            for value in (1, 7, 0, -1, 100_000, "x", 2.5):
                yield asked(
                    f"{limit}={value} stream={stream}", path, without=LIMITS[path], **{limit: value, "stream": stream}
                )
        yield asked(f"no limit stream={stream}", path, without=LIMITS[path], stream=stream, ignore_eos=False)


def _sampling() -> Iterator[Asked]:
    for path, stream in _each():
        for name, value in (
            ("priority", -1_000_000),
            ("priority", 3),
            ("priority", "x"),
            ("temperature", 3),
            ("temperature", -1),
        ):
            yield asked(f"{name}={value} stream={stream}", path, **{name: value, "stream": stream})
        for tier in ("auto", "default", "flex", "priority", "bogus"):
            yield asked(f"tier {tier} stream={stream}", path, service_tier=tier, stream=stream)
    for path, stream in itertools.product((COMPLETIONS, CHAT), (False, True)):
        for n in (1, 2, 0, 9, 100):
            yield asked(f"n={n} stream={stream}", path, n=n, temperature=1, stream=stream)
        yield asked(f"stop stream={stream}", path, stop=["a", "b"], stream=stream)
        yield asked(
            f"usage stream={stream}",
            path,
            stream=stream,
            **({"stream_options": {"include_usage": True}} if stream else {}),
        )
        for form in (
            {"type": "json_object"},
            {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
            {"type": "bogus"},
        ):
            yield asked(f"format {form['type']} stream={stream}", path, response_format=form, stream=stream)
    yield asked("logprobs", COMPLETIONS, logprobs=2)
    yield asked("logprobs", CHAT, logprobs=True, top_logprobs=2)
    for choice in ("none", "auto", "required"):
        yield asked(f"tools {choice}", CHAT, tools=[_TOOL], tool_choice=choice)


def _shapes() -> Iterator[Asked]:
    for stream in (False, True):
        for name, prompt in (
            ("list", ["a", "b"]), ("tokens", [300, 301]), ("token lists", [[300], [301, 302]]), ("empty", ""),
            ("no prompts", []), ("of the wrong kind", {"a": 1}), ("many", ["a"] * 200),
        ):  # fmt: skip
            yield asked(f"prompt {name} stream={stream}", COMPLETIONS, prompt=prompt, stream=stream)
        yield asked(f"echo stream={stream}", COMPLETIONS, echo=True, stream=stream)
        for name, messages in (
            ("none", []), ("a role that is none", [{"role": "x", "content": "a"}]), ("no content", [{"role": "user"}]),
            ("parts", [{"role": "user", "content": [{"type": "text", "text": "a"}]}]),
            ("two", [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]),
        ):  # fmt: skip
            yield asked(f"messages {name} stream={stream}", CHAT, messages=messages, stream=stream)
    for path in (RESPONSES, CHAT):
        yield asked("background", path, background=True)
    yield asked("stored", RESPONSES, store=True)
    yield asked("too long", COMPLETIONS, prompt="word " * 5000)


def _wrong() -> Iterator[Asked]:
    for path in LIMITS:
        for stream in (False, True):
            yield asked(f"another model stream={stream}", path, model="other", stream=stream)
        yield asked("no model", path, without=("model",))
        for name, text in (
            ("nothing", b""),
            ("no JSON", b'{"model": '),
            ("a list", b"[1]"),
            ("a number", b"1"),
            ("bytes", b"\xff\xfe"),
        ):
            yield Asked(name, path, text)
        yield replace(asked("as text", path), headers={"content-type": "text/plain"})
        yield replace(asked("no type", path), headers={})
        yield Asked("method", path, method="GET", headers={})


def _headers() -> Iterator[Asked]:
    for path in LIMITS:
        for name in ("realtime", "normal", "batch", "none-such"):
            yield asked(f"class {name}", path, headers={"x-headway-class": name})
        yield asked("request id", path, headers={"x-request-id": "an-id-of-the-client"})
        yield asked("request id of bad form", path, headers={"x-request-id": "a b" * 200})
        yield asked("queue time-out", path, headers={"x-headway-queue-timeout-seconds": "30"})
        yield asked("queue time-out of bad form", path, headers={"x-headway-queue-timeout-seconds": "soon"})
        yield asked("retry", path, headers={"x-stainless-retry-count": "1"})
        yield asked("priority header", path, headers={"x-vllm-priority": "-5"})


def _others() -> Iterator[Asked]:
    for path, body in (
        ("/v1/embeddings", {"input": ["a", "b"]}), ("/v1/score", {"text_1": "a", "text_2": ["b"]}),
        ("/v1/rerank", {"query": "a", "documents": ["b", "c"]}), ("/v2/rerank", {"query": "a", "documents": ["b"]}),
        ("/rerank", {"query": "a", "documents": ["b"]}), ("/score", {"text_1": "a", "text_2": "b"}),
        ("/pooling", {"input": "a"}), ("/classify", {"input": "a"}),
        ("/tokenize", {"prompt": "a b c"}), ("/detokenize", {"tokens": [300, 301]}),
        ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "a"}]}),
    ):  # fmt: skip
        yield Asked("usual", path, json.dumps({"model": "tiny", **body}).encode())
        yield Asked("another model", path, json.dumps({"model": "other", **body}).encode())
        yield Asked("nothing", path, b"{}")
    for path, stream in itertools.product(("/v1/audio/transcriptions", "/v1/audio/translations"), (False, True)):
        yield _sound(path, stream=stream)
    for path in (
        "/v1/models",
        "/v1/models/tiny",
        "/v1/models/other",
        "/version",
        "/health",
        "/ping",
        "/load",
        "/none",
        "/v1/none",
    ):
        yield Asked("get", path, headers={}, method="GET")
    for path in ("/v1/models/", "//v1/models", "/v1/./models", "/v1%2fmodels"):
        yield Asked("odd form", path, headers={}, method="GET")
    for path in ("/v1/load_lora_adapter", "/sleep", "/reset_prefix_cache", "/v1/responses/abc/cancel"):
        yield Asked("of an operator", path, b"{}")


def _sound(path: str, *, stream: bool) -> Asked:
    parts = (
        ("model", b"tiny", ""),
        ("stream", b"true" if stream else b"false", ""),
        ("file", b"RIFF....WAVE", "a.wav"),
    )
    body = b""
    for name, value, filename in parts:
        named = f'; filename="{filename}"' if filename else ""
        body += f'--cut\r\nContent-Disposition: form-data; name="{name}"{named}\r\n\r\n'.encode() + value + b"\r\n"
    headers = {"content-type": "multipart/form-data; boundary=cut"}
    return Asked(f"sound stream={stream}", path, body + b"--cut--\r\n", headers)


def _cancelled() -> Iterator[Asked]:
    for path in LIMITS:
        body = asked("left", path, stream=True, **{LIMITS[path][0]: 400}, ignore_eos=True)
        yield replace(body, name="client leaves its stream", gone_after=200)
