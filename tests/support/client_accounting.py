"""Outcomes as the clients saw them, compared with the counters of Headway and of vLLM."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field

import httpx
from client_connections import CONNECTIONS
from running_server import RunningServer, Scrape

ROUTE = "/v1/completions"


#: Totals of all client groups of a test session, for the summary at its end.
TOTALS: Counter[str] = Counter()


@dataclass(slots=True)
class Client:
    """One request, and the response as its client saw it."""

    number: int
    class_name: str
    stream: bool
    max_tokens: int
    status: int | None = None
    tokens: int = 0
    errors: int = 0
    done: bool = False
    ended: bool = False
    reason: str = ""
    degraded: str = ""

    @property
    def verdict(self) -> str:
        """Completed, broken (an error after the first byte), refused, or nothing (no complete response)."""
        if self.status is None or not self.ended:
            return "nothing"
        if self.status != httpx.codes.OK:
            return "refused"
        whole = self.tokens == self.max_tokens and not self.errors
        return "completed" if whole else "broken"

    @property
    def flows(self) -> bool:
        """Whether it has the beginning of a stream and not its end."""
        return self.stream and self.status is not None and not self.ended

    async def ask(self, http: httpx.AsyncClient, url: str) -> None:
        """Send the request and read the response to its end. The prompt contains the request's number."""
        body = {
            "model": "tiny",
            "prompt": f"This is request number {self.number}.",
            "max_tokens": self.max_tokens,
            "ignore_eos": True,
            "stream": self.stream,
            **({"stream_options": {"include_usage": True}} if self.stream else {}),
        }
        headers = {"x-headway-class": self.class_name}
        try:
            async with http.stream("POST", url + ROUTE, json=body, headers=headers) as answer:
                self.status, self.reason = answer.status_code, answer.headers.get("x-headway-reason", "")
                self.degraded = answer.headers.get("x-headway-degraded", "")
                async for line in answer.aiter_lines():
                    self._read(line)
                self.ended = True
        except httpx.HTTPError as error:
            self.reason = type(error).__name__

    def _read(self, line: str) -> None:
        text = line.removeprefix("data: ")
        if text == "[DONE]":
            self.done = True
        elif text:
            chunk = json.loads(text)
            self.errors += "error" in chunk
            if usage := chunk.get("usage"):
                self.tokens = usage["completion_tokens"]


@dataclass(slots=True)
class ClientGroup:
    """A group of clients, and the server's counters before its requests."""

    server: RunningServer
    clients: list[Client]
    headers: dict[str, str] = field(default_factory=dict)
    before: Scrape = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.server.scrape()

    async def run(self, spread_s: float = 0.0) -> None:
        """Start all clients, spread over ``spread_s``, and read every response to its end."""
        http = httpx.AsyncClient(timeout=240, limits=CONNECTIONS, headers=self.headers)
        async with http, asyncio.TaskGroup() as group:
            for one in self.clients:
                group.create_task(one.ask(http, self.server.url))
                await asyncio.sleep(spread_s / len(self.clients))

    def verdicts(self) -> Counter[str]:
        """The number of clients by verdict."""
        return Counter(one.verdict for one in self.clients)

    def audit(self) -> Counter[str]:
        """Compare the counts of clients, Headway and vLLM once the server is idle; returns them."""
        self.server.settle()
        now = self.server.scrape()
        assert now.unbalanced() == []

        def grown(name: str, **labels: str) -> int:
            return int(now(name, **labels) - self.before(name, **labels))

        seen = self.verdicts()
        completed = grown("headway_outcomes_total", outcome="completed")
        finished = sum(grown("vllm:request_success_total", finished_reason=why) for why in ("stop", "length"))
        assert seen["nothing"] == 0, [one for one in self.clients if one.verdict == "nothing"]
        assert grown("headway_arrivals_total") == len(self.clients)
        others = [one for one in self.clients if one.verdict != "completed"]
        assert completed == seen["completed"], (
            f"counted as completed, but no client received the whole response: {others}"
        )
        assert grown("headway_outcomes_total") == len(self.clients)
        assert finished >= completed, "more completed than the engine finished"
        probes = grown("headway_engine_deaths_total")  # one for each replaced engine
        counts = Counter({"requests": len(self.clients), **seen, "doubled": finished - completed - probes})
        TOTALS.update(counts)
        return counts


def mixed(count: int, *, sizes: tuple[int, ...] = (40, 200)) -> list[Client]:
    """``count`` clients: every second one streams; sizes and classes alternate."""
    return [
        Client(number, ("normal", "batch")[number // 2 % 2], number % 2 == 0, sizes[number // 4 % len(sizes)])
        for number in range(count)
    ]
