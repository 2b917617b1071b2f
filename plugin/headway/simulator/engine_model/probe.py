"""The probe of a live server: streamed completions, alone and side by side, timed at the client.

Any OpenAI-compatible server will do. Prompts are random words, so that no prefix cache has seen them; their number of
tokens is counted by the server (``stream_options.include_usage``). ``ignore_eos`` keeps the answers at full length.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from random import Random
from urllib.parse import urlsplit

import requests

from headway.simulator.engine_model.fit import CalibrationError, Point
from headway.simulator.engine_model.words import random_words

_CONNECT_TIMEOUT_S = 5.0
_READ_TIMEOUT_S = 120.0
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}

CONCURRENCIES = (1, 2, 4, 8, 16, 32)
PROMPT_WORDS = (8, 32, 128, 256, 512)
OUTPUT_TOKENS = 48
_REPEATS = 3

#: Called with what is measured, and the share that is done.
Progress = Callable[[str, float], None]


@dataclass(slots=True)
class Stream:
    """One streamed answer: when it was requested, when each piece came, and the token counts of the server."""

    asked_s: float
    times_s: list[float] = field(default_factory=list)
    prompt_tokens: int = 0
    output_tokens: int = 0

    @property
    def first_token_s(self) -> float:
        """How long the first piece took."""
        return self.times_s[0] - self.asked_s


@dataclass(frozen=True, slots=True)
class Measured:
    """Both series: the time between tokens by concurrency, the first token by prompt length."""

    inter_token: list[Point]
    first_token: list[Point]


class Probe:
    """Asks one model on one server. Use as a context manager."""

    def __init__(self, url: str, model: str | None = None, key: str | None = None) -> None:
        self.url = url.rstrip("/")
        self._random = Random()  # noqa: S311 - never the same words twice: a prefix cache would know them
        self._session = requests.Session()
        self._session.trust_env = urlsplit(self.url).hostname not in _LOOPBACK
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, requests.adapters.HTTPAdapter(pool_maxsize=max(CONCURRENCIES)))
        if key is not None:
            self._session.headers["Authorization"] = f"Bearer {key}"
        self.model = model or self._first_model()

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def measure(self, within_s: float, progress: Progress) -> Measured:
        """Both series in turn, from small to large; no round begins after ``within_s``. Raises CalibrationError."""
        end_s = time.monotonic() + within_s
        measured = Measured([], [])
        self.stream(PROMPT_WORDS[0], OUTPUT_TOKENS)  # the first request of all may pay for what is made on first use
        rounds = list(zip_longest(PROMPT_WORDS, CONCURRENCIES))
        for done, (words, number) in enumerate(rounds):
            if time.monotonic() >= end_s:
                break
            if words is not None:
                progress(f"first token, a prompt of {words} words", done / len(rounds))
                measured.first_token.extend(self._first_tokens(words, so_far=measured.first_token))
            if number is not None:
                progress(f"between tokens, {number} together", (done + 0.5) / len(rounds))
                measured.inter_token.extend(together(self.streams(number)))
        return measured

    def _first_tokens(self, words: int, so_far: Sequence[Point]) -> list[Point]:
        """A prompt may be longer than the model can take: then the shorter ones must do."""
        try:
            return [_first_token(self.stream(words, 1)) for _ in range(_REPEATS)]
        except CalibrationError:
            if len(so_far) < 2 * _REPEATS:
                raise
            return []

    def streams(self, number: int) -> list[Stream]:
        """This many answers at once."""
        with ThreadPoolExecutor(number) as threads:
            asked = [threads.submit(self.stream, PROMPT_WORDS[0], OUTPUT_TOKENS) for _ in range(number)]
            return [one.result() for one in asked]

    def stream(self, words: int, output_tokens: int) -> Stream:
        """One streamed answer. Raises CalibrationError where the server refuses, or requests.RequestException."""
        body = {
            "model": self.model,
            "prompt": random_words(self._random, words),
            "max_tokens": output_tokens,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        begun = Stream(time.monotonic())
        with self._session.post(
            f"{self.url}/v1/completions", json=body, stream=True, timeout=(_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S)
        ) as answer:
            if answer.status_code != requests.codes.ok:
                raise CalibrationError(f"{self.url} answered {answer.status_code}: {_why(answer)}")
            for event in _events(answer):
                _note(begun, event, time.monotonic())
        if not begun.times_s:
            raise CalibrationError(f"{self.url} streamed no token; calibration needs a model that generates text")
        return begun

    def _first_model(self) -> str:
        answer = self._session.get(f"{self.url}/v1/models", timeout=(_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S))
        try:
            return str(answer.json()["data"][0]["id"])
        except (ValueError, LookupError, TypeError):
            raise CalibrationError(
                f"{self.url}/v1/models answered {answer.status_code} and names no model; give --model"
            ) from None


def together(streams: Sequence[Stream]) -> list[Point]:
    """The time between tokens while all of them ran; no point where they never all did, or one came in one piece."""
    begin_s = max(stream.times_s[0] for stream in streams)
    end_s = min(stream.times_s[-1] for stream in streams)
    gaps_s = sorted(
        later_s - earlier_s
        for stream in streams
        for earlier_s, later_s in pairwise(stream.times_s)
        if begin_s <= earlier_s and later_s <= end_s
    )
    if not gaps_s:
        return []
    pieces = sum(len(stream.times_s) for stream in streams)
    tokens = sum(stream.output_tokens or len(stream.times_s) for stream in streams)
    return [Point(len(streams), sum(gaps_s) / len(gaps_s) * pieces / tokens)]


def _first_token(stream: Stream) -> Point:
    return Point(stream.prompt_tokens, stream.first_token_s)


def _events(answer: requests.Response) -> Iterator[dict[str, object]]:
    """The JSON of each server-sent event."""
    for line in answer.iter_lines():
        text = line.decode("utf-8", errors="replace")
        if text.startswith("data:") and text.removeprefix("data:").strip() != "[DONE]":
            try:
                event = json.loads(text.removeprefix("data:"))
            except ValueError:
                raise CalibrationError("the server's stream is not that of an OpenAI-compatible server") from None
            if isinstance(event, dict):
                yield event


def _note(stream: Stream, event: dict[str, object], now_s: float) -> None:
    if event.get("choices"):
        stream.times_s.append(now_s)
    usage = event.get("usage")
    if isinstance(usage, dict):
        stream.prompt_tokens = int(usage.get("prompt_tokens") or 0)
        stream.output_tokens = int(usage.get("completion_tokens") or 0)


def _why(answer: requests.Response) -> str:
    """The server's error message, in one short line."""
    return " ".join(answer.text.split())[:200] or "without a word"
