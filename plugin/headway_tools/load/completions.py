"""A streaming client of ``/v1/completions`` of an OpenAI-compatible server.

Prompts are random, so that no prefix cache has seen them; ``ignore_eos`` keeps the answers at full length. Class and
tenant go in Headway's headers, which other servers ignore. Nothing is retried, and no redirect is followed. Each
request has a connection of its own: a server may close an idle one at the moment in which it is used again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from random import Random
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from headway.api import BadUrlError, is_loopback
from headway.errors import HeadwayError
from headway_simulator.traffic.workload import Request
from headway_tools.load.scrape import Counts, read
from headway_tools.load.served import COMPLETED, FAILED, REFUSED, UNANSWERED, Served

_CONNECT_S = 10.0
_MAX_ERROR_BYTES = 2048
_MAX_MODELS_BYTES = 1024 * 1024
_MAX_METRICS_BYTES = 16 * 1024 * 1024
_MAX_WHY_CHARS = 60
_REFUSALS = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}
#: Ids that every vocabulary has, above those of most special tokens.
_TOKEN_IDS = (100, 1000)
_SYLLABLES = ("ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "va", "we")


class UnreachableServerError(HeadwayError):
    """No server answers at the URL."""


class UnsuitableServerError(HeadwayError):
    """The server is not OpenAI-compatible, or streams no completions of this model."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model of the server; ``max_tokens`` is the longest sequence, None where the server does not say it."""

    name: str
    max_tokens: int | None


class Completions:
    """Asks one server. Use as an asynchronous context manager.

    ``other_class`` has the classes that were asked for and not given, each with the one that was, and whether a
    ``key`` has less urgent ones only, or the server has ``no_key`` file; empty where it does not say why.
    """

    def __init__(
        self, url: str, *, model: str | None = None, as_text: bool = False, key: str | None = None, timeout_s: float
    ) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self.model = Model(model or "", None)
        self._wanted = model
        self._as_text = as_text
        self._timeout_s = timeout_s
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.other_class: dict[str, tuple[str, str]] = {}
        self._random = Random()  # noqa: S311 - never the same prompts twice: a prefix cache would know them

    async def __aenter__(self) -> Completions:
        """Find the model. Raises BadUrlError, UnreachableServerError, UnsuitableServerError."""
        try:
            host = urlsplit(self.url).hostname or ""
        except ValueError:
            raise self._no_url() from None
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            timeout=aiohttp.ClientTimeout(total=self._timeout_s, sock_connect=_CONNECT_S),
            trust_env=not is_loopback(host),
            headers=self._headers,
        )
        try:
            self.model = await self._find_model()
            await self._try()
        except BaseException:
            await self._session.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._session.close()

    async def complete(self, request: Request) -> Served:
        """Run one request, from the moment it is sent to its end."""
        try:
            return await self._complete(request)
        except TimeoutError:
            why = f"no end within {self._timeout_s:g} s"
        except (aiohttp.ClientError, HttpProcessingError, OSError, ValueError) as error:  # the last: a line too long
            why = type(error).__name__
        return Served(request.class_name, UNANSWERED, why=why)

    async def counts(self) -> Counts:
        """The counts and objectives in the server's metrics; none where it has no such metrics."""
        try:
            within = aiohttp.ClientTimeout(total=_CONNECT_S)
            async with self._session.get(f"{self.url}/metrics", allow_redirects=False, timeout=within) as answer:
                text = (await _body_of(answer, _MAX_METRICS_BYTES)).decode()
            return read(text) if answer.status == HTTPStatus.OK else Counts({})
        except (aiohttp.ClientError, OSError, ValueError, KeyError):
            return Counts({})

    # ------------------------------------------------------------------ inside

    async def _find_model(self) -> Model:
        try:
            within = aiohttp.ClientTimeout(total=_CONNECT_S)
            async with self._session.get(f"{self.url}/v1/models", allow_redirects=False, timeout=within) as answer:
                status, body = answer.status, await _body_of(answer, _MAX_MODELS_BYTES)
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
            raise self._no_url() from None
        except (aiohttp.ClientError, OSError, TimeoutError):
            raise UnreachableServerError(f"no server answers at {self.url}; is it running?") from None
        if status == HTTPStatus.UNAUTHORIZED:
            raise UnsuitableServerError(f"{self.url} wants an API key: set OPENAI_API_KEY (see also --send-key)")
        models = _models(body)
        if not models:
            raise UnsuitableServerError(f"{self.url}/v1/models answered {status} and names no model")
        if self._wanted is None:
            return models[0]
        found = next((model for model in models if model.name == self._wanted), None)
        if found is None:
            known = ", ".join(model.name for model in models)
            raise UnsuitableServerError(f"{self.url} has no model {self._wanted!r}, but: {known}")
        return found

    def _no_url(self) -> BadUrlError:
        return BadUrlError(self.url)

    async def _try(self) -> None:
        """A request of one token: what would fail in each request fails here, once."""
        served = await self.complete(Request(0.0, "", 4, 1))
        if served.ending not in (COMPLETED, REFUSED):
            advice = "" if self._as_text else "; try --text-prompts where it takes no token ids"
            raise UnsuitableServerError(f"{self.url}/v1/completions: a first request failed: {served.why}{advice}")

    async def _complete(self, request: Request) -> Served:
        clock = asyncio.get_running_loop().time
        headers = {"x-headway-class": request.class_name, "x-headway-tenant": request.tenant}
        sent_s = clock()
        async with self._session.post(
            f"{self.url}/v1/completions",
            json=self._body(request),
            headers={name: value for name, value in headers.items() if value},
            allow_redirects=False,
        ) as answer:
            given = answer.headers.get("x-headway-class", "")[:_MAX_WHY_CHARS]
            if given and request.class_name not in ("", given):
                why = answer.headers.get("x-headway-class-asked", "").partition("reason=")[2]
                self.other_class[request.class_name] = given, why
            if answer.status != HTTPStatus.OK:
                return await _refused(request, answer)
            return await self._read(request, answer, sent_s)

    async def _read(self, request: Request, answer: aiohttp.ClientResponse, sent_s: float) -> Served:
        clock = asyncio.get_running_loop().time
        first_s = last_s = 0.0
        pieces = tokens = 0
        finish, done = "", False
        async for line in answer.content:
            if not line.startswith(b"data:"):
                continue
            now_s, text = clock(), line[5:].strip()
            if text == b"[DONE]":
                done = True
                break
            event = _event(text)
            if (error := event.get("error")) is not None:
                return Served(request.class_name, FAILED, why=_why(error))
            if choices := event.get("choices"):
                first_s, last_s, pieces = first_s or now_s, now_s, pieces + 1
                finish = choices[0].get("finish_reason") or finish
            if usage := event.get("usage"):
                tokens = int(usage.get("completion_tokens") or 0)
        tokens = tokens or pieces
        ttft_s = first_s - sent_s if pieces else None
        between_s = (last_s - first_s) / (tokens - 1) if tokens > 1 else None
        if finish and finish != "abort" and pieces:
            return Served(request.class_name, COMPLETED, ttft_s, tokens, inter_token_s=between_s)
        if done:
            why = "aborted by the engine" if finish == "abort" else "the stream has no end of an answer"
            return Served(request.class_name, FAILED, ttft_s, tokens, why)
        return Served(request.class_name, UNANSWERED, ttft_s, tokens, "the stream was cut")

    def _body(self, request: Request) -> dict[str, Any]:
        return {
            "model": self.model.name,
            "prompt": self._prompt(request.prompt_tokens),
            "max_tokens": request.output_tokens,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def _prompt(self, tokens: int) -> str | list[int]:
        if self._as_text:
            words = range(max(tokens // 2, 1))  # of two syllables, most of which are two tokens each
            return " ".join("".join(self._random.choices(_SYLLABLES, k=2)) for _ in words)
        return [self._random.randrange(*_TOKEN_IDS) for _ in range(tokens)]


async def _refused(request: Request, answer: aiohttp.ClientResponse) -> Served:
    advice = answer.headers.get("retry-after", "")
    reason = answer.headers.get("x-headway-reason")
    why = f"{answer.status} {reason}" if reason else f"status {answer.status}"
    if answer.status in _REFUSALS:
        return Served(
            request.class_name, REFUSED, why=why[:_MAX_WHY_CHARS],
            retry_after_s=int(advice) if advice.isdecimal() and len(advice) < 9 else None,
        )  # fmt: skip
    body = await _body_of(answer, _MAX_ERROR_BYTES)
    return Served(request.class_name, FAILED, why=f"{why}: {_why(_event(body))}")


async def _body_of(answer: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """The body, cut to so many bytes; a read gives only what has come."""
    body = bytearray()
    while len(body) < most_bytes and (piece := await answer.content.read(most_bytes - len(body))):
        body += piece
    return bytes(body)


def _event(text: bytes) -> Mapping[str, Any]:
    """A JSON object; an empty one for anything else."""
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def _why(error: object) -> str:
    """The message of an error, in one short line."""
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("error") or error.get("detail") or "an error without a message"
        return _why(error)
    return " ".join(str(error).split())[:_MAX_WHY_CHARS]


def _models(body: bytes) -> list[Model]:
    found = []
    listed = _event(body).get("data")
    for model in listed if isinstance(listed, list) else []:
        if isinstance(model, dict) and isinstance(model.get("id"), str):
            longest = model.get("max_model_len")
            found.append(Model(model["id"], longest if isinstance(longest, int) and longest > 1 else None))
    return found
