"""The ledger seen from outside: what each client saw, to be compared with what the server counted and what vLLM did."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field

import httpx
from running_server import RunningServer, Scrape

ROUTE = "/v1/completions"


#: Over all runs of a session, for the summary at its end.
TOLD: Counter[str] = Counter()


@dataclass(slots=True)
class Client:
    """One request and all its client saw of it."""

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
        """Completed, broken (an error after the first byte), refused, or nothing at all."""
        if self.status is None or not self.ended:
            return "nothing"
        if self.status != httpx.codes.OK:
            return "refused"
        whole = self.tokens == self.max_tokens and not self.errors
        return "completed" if whole else "broken"

    async def ask(self, http: httpx.AsyncClient, url: str) -> None:
        """Send it, and read whatever comes to its end. The prompt carries the number; nobody else's may come back."""
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
            said = json.loads(text)
            self.errors += "error" in said
            if usage := said.get("usage"):
                self.tokens = usage["completion_tokens"]


@dataclass(slots=True)
class Books:
    """The clients of one run, and the server's counts before it."""

    server: RunningServer
    clients: list[Client]
    before: Scrape = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.server.scrape()

    async def run(self, spread_s: float = 0.0) -> None:
        """All clients, spread over that time; each is read to its end."""
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(timeout=240, limits=limits) as http, asyncio.TaskGroup() as group:
            for one in self.clients:
                group.create_task(one.ask(http, self.server.url))
                await asyncio.sleep(spread_s / len(self.clients))

    def verdicts(self) -> Counter[str]:
        """How many clients saw what."""
        return Counter(one.verdict for one in self.clients)

    def audit(self) -> Counter[str]:
        """Compare all three: clients, Headway, vLLM. Returns the counts; at rest only."""
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
        assert completed == seen["completed"], f"counted as completed what no client got whole: {others}"
        assert grown("headway_outcomes_total") == len(self.clients)
        assert finished >= completed, "more completed than the engine finished"
        probes = grown("headway_engine_deaths_total")  # one for each engine that was put in place of another
        counts = Counter({"requests": len(self.clients), **seen, "doubled": finished - completed - probes})
        TOLD.update(counts)
        return counts


def mixed(count: int, *, sizes: tuple[int, ...] = (40, 200)) -> list[Client]:
    """So many clients: every second one streams, sizes and classes in turn."""
    return [
        Client(number, ("normal", "batch")[number // 2 % 2], number % 2 == 0, sizes[number // 4 % len(sizes)])
        for number in range(count)
    ]
