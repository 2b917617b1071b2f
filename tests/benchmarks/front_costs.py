"""``make bench-front``: what one ``headway route`` costs beside the bare server behind it.

--model          before vLLM with the tiny model of the tests as well
--rest           only what whole servers with that model take at rest, and what the first token gains by the warm-up
--rounds N       how often each block is played, 5 by itself
--write          put the table into deploy/site/docs/measured/index.md

The same requests go to the server and through the front, in turn, on connections that stay open. Processor time is that
of the front's process, less what it takes at rest; that of a request and that of a token are told apart by answers of
two lengths, each of them unequal, so that requests do not come all at once. The server is a stand-in in a process of
its own, which takes so long for a token that a thousand a second come, each an event of its own of about the size that
vLLM's have; then more, and at last as many as it can send. Ten minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median

import aiohttp
import psutil
from report import put_into, table
from running_router import RunningRouter, StandIn
from running_server import RunningServer
from serving.client import TINY
from serving.machine import describe, in_words

PAGE = Path(__file__).resolve().parents[2] / "deploy/site/docs/measured/index.md"
STREAMS = (1, 16, 64)
SHORT, LONG = 4, 68
TOKENS_PER_S = 1000
#: Offered to 64 streams; 0 is as many as the stand-in can send. In the last row an event has eight tokens.
OFFERED = ((4_000, 1), (16_000, 1), (0, 1), (0, 8))
#: Nothing waits, and no limit follows what the machine does meanwhile.
PRESET = """
name = "roomy"
description = "Seats for everything."
extends = "throughput"
[batching]
seats = 128
[queue]
refuse_infeasible = false
[limit]
policy = "fixed"
"""
#: What vLLM has in an event beside its text.
_EVENT_CHARS = 220
_END = b"data: [DONE]\n\n"
_REST_S, _STARTS = 5.0, 3


class BareVllm(RunningServer):
    """vLLM without Headway."""

    ready_path = "/health"


@dataclass(frozen=True, slots=True)
class Block:
    """Requests of about one length, sent one after another on each connection; ``pieces`` are reads of the client."""

    requests: int
    tokens: int
    pieces: int
    first_s: float
    front_s: float
    server_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one round: processor seconds of a request without its tokens, of a token, of the bare server for a token with
    its part of a request; and how much later the first token comes.
    """

    request_s: float
    token_s: float
    server_s: float
    later_s: float


@dataclass(frozen=True, slots=True)
class Bench:
    """A server and the front before it."""

    server_url: str
    front_url: str
    server: psutil.Process
    front: psutil.Process
    prompt: str
    rest_ratio: float = 0.0

    def block(self, url: str, streams: int, requests: int, tokens: int) -> Block:
        """Play one, and check that every answer is whole."""
        random, played = Random(0), _Played()
        lengths = [random.randint(tokens // 2, tokens * 3 // 2) for _ in range(requests)]
        began_s, front_s, server_s = time.perf_counter(), _cpu_s(self.front), _cpu_s(self.server)
        asyncio.run(played.all(f"{url}/v1/completions", streams, lengths, self.prompt))
        wall_s = time.perf_counter() - began_s
        spent_s = _cpu_s(self.front) - front_s - self.rest_ratio * wall_s
        server_s = _cpu_s(self.server) - server_s
        return Block(requests, sum(lengths), played.pieces, median(played.firsts_s), spent_s, server_s, wall_s)

    def rounds(self, streams: int, number: int) -> Iterator[Cost]:
        """The cost in each round; the order of the arms changes from one to the next."""
        for turn in range(number):
            urls = (self.server_url, self.front_url)
            blocks = {
                url: (
                    self.block(url, streams, max(200, 6 * streams), SHORT),
                    self.block(url, streams, max(80, 3 * streams), LONG),
                )
                for url in (urls if turn % 2 else reversed(urls))
            }
            yield cost(*blocks[self.server_url], *blocks[self.front_url])


def cost(bare_short: Block, bare_long: Block, short: Block, long: Block) -> Cost:
    """What a round says: answers of two lengths of the bare server, and the same through the front."""
    each_s, each_tokens = short.front_s / short.requests, short.tokens / short.requests
    token_s = (long.front_s / long.requests - each_s) / (long.tokens / long.requests - each_tokens)
    server_s = bare_long.server_s / bare_long.tokens
    return Cost(each_s - each_tokens * token_s, token_s, server_s, long.first_s - bare_long.first_s)


def _cpu_s(process: psutil.Process) -> float:
    """That of a process and all below it."""
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(time.user + time.system for time in times)


class _Played:
    """What came: seconds to the first tokens, but for those of the first requests, which are sent at once."""

    def __init__(self) -> None:
        self.firsts_s: list[float] = []
        self.pieces = 0

    async def all(self, url: str, streams: int, lengths: Sequence[int], prompt: str) -> None:
        """Raises RuntimeError where an answer is not whole."""
        left = iter(lengths)
        connector, within = aiohttp.TCPConnector(limit=0, keepalive_timeout=60), aiohttp.ClientTimeout(total=120)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=within) as session,
            asyncio.TaskGroup() as clients,
        ):
            for _ in range(streams):
                clients.create_task(self._client(session, url, left, prompt))

    async def _client(self, session: aiohttp.ClientSession, url: str, left: Iterator[int], prompt: str) -> None:
        body = {"model": "tiny", "prompt": prompt, "ignore_eos": True, "stream": True}
        for turn, tokens in enumerate(left):
            began_s, first_s, last = time.perf_counter(), 0.0, b""
            async with session.post(url, json={**body, "max_tokens": tokens}) as response:
                response.raise_for_status()
                async for part in response.content.iter_any():
                    first_s = first_s or time.perf_counter() - began_s
                    self.pieces += 1
                    last = (last + part)[-len(_END) :]
            if last != _END:
                raise RuntimeError(f"an answer ends with {last!r}")
            if turn:
                self.firsts_s.append(first_s)


@contextmanager
def before(server_url: str, pid: int, prompt: str) -> Iterator[Bench]:
    """A front before this server, once both have answered and the front's processor time at rest is known."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "roomy.toml").write_text(PRESET, encoding="utf-8")
        words = ("--preset", "roomy", "--preset-dir", str(folder))
        front = stack.enter_context(RunningRouter.before(folder / "front.log", [server_url], *words))
        assert front.process is not None
        bench = Bench(server_url, front.url, psutil.Process(pid), psutil.Process(front.process.pid), prompt)
        for url in (server_url, front.url):
            bench.block(url, 16, 64, LONG)
        rest_s = _cpu_s(bench.front)
        time.sleep(_REST_S)
        rest_ratio = (_cpu_s(bench.front) - rest_s) / _REST_S
        yield Bench(server_url, front.url, bench.server, bench.front, prompt, rest_ratio)


@contextmanager
def _stand_in(step_s: float, prompt: str) -> Iterator[Bench]:
    with StandIn(step_s, seats=256) as server:
        assert server.process is not None
        with before(server.url, server.process.pid, prompt) as bench:
            yield bench


def paced(number: int) -> Iterator[list[str]]:
    """The rows of the stand-in."""
    for streams in STREAMS:
        with _stand_in(streams / TOKENS_PER_S, "x" * _EVENT_CHARS) as bench:
            yield _row("a stand-in", streams, list(bench.rounds(streams, number)), bench.rest_ratio)


def real(number: int) -> Iterator[list[str]]:
    """The rows of the engine with the tiny model."""
    with tempfile.TemporaryDirectory() as folder:
        server = BareVllm.plain_vllm(Path(folder) / "vllm.log", "--max-num-seqs", "128", VLLM_PLUGINS="")
        with server, before(server.url, server.process.pid if server.process else 0, "word " * 16) as bench:
            for streams in STREAMS:
                yield _row("vLLM, the tiny model", streams, list(bench.rounds(streams, number)), bench.rest_ratio)


def resting(number: int) -> Iterator[list[str]]:
    """What whole servers with the tiny model take without a request: vLLM alone, and `headway serve` beside it; and the
    first token of a request alone before the warm-up against after it, in some starts.
    """
    with tempfile.TemporaryDirectory() as folder:
        bare = BareVllm.plain_vllm(Path(folder) / "vllm.log", VLLM_PLUGINS="")
        own = [RunningServer.headway(Path(folder) / f"headway-{start}.log") for start in range(_STARTS)]
        with bare, own[0]:
            processes = [psutil.Process(server.process.pid) for server in (bare, own[0]) if server.process is not None]
            used_s = []
            for _ in range(number):
                before_s = [_cpu_s(process) for process in processes]
                time.sleep(_REST_S)
                used_s.append([_cpu_s(one) - from_s for one, from_s in zip(processes, before_s, strict=True)])
            ratios = [_warm_up_ratio(own[0])]
        for server in own[1:]:
            with server:
                ratios.append(_warm_up_ratio(server))
        at_rest = [
            _spread([1e3 * one_s / _REST_S for one_s in spent_s], "{:.1f}") for spent_s in zip(*used_s, strict=True)
        ]
        yield ["vLLM alone", at_rest[0], ""]
        yield ["`headway serve`", at_rest[1], _spread(ratios, "{:.1f}")]


def _warm_up_ratio(server: RunningServer) -> float:
    return float(server.status()["warmup"]["first_token_ratio"])


def full(number: int) -> Iterator[list[str]]:
    """What one front passes on of what is offered, and what of a processor that takes."""
    for offered, tokens in OFFERED:
        with _stand_in(64 / offered if offered else 0.0, "x" * (_EVENT_CHARS + 4 * (tokens - 1))) as bench:
            blocks = [bench.block(bench.front_url, 64, 256, 256) for _ in range(number)]
        passed = _spread([tokens * block.tokens / block.wall_s for block in blocks], "{:,.0f}")
        busy = _spread([block.front_s / block.wall_s for block in blocks], "{:.2f}")
        a_read = _spread([block.tokens / block.pieces for block in blocks], "{:.1f}")
        rate = _spread([tokens * block.tokens / block.front_s for block in blocks], "{:,.0f}")
        yield [f"{offered:,}" if offered else "all it can", str(tokens), passed, busy, a_read, rate]


def _row(server: str, streams: int, costs: Sequence[Cost], rest_ratio: float) -> list[str]:
    columns = [
        ([cost.request_s * 1e3 for cost in costs], "{:.2f}"),
        ([cost.token_s * 1e6 for cost in costs], "{:.0f}"),
        ([cost.later_s * 1e3 for cost in costs], "{:.1f}"),
        ([cost.server_s * 1e6 for cost in costs], "{:.0f}"),
    ]
    print(f"{server}, {streams}: {rest_ratio:.1%} of a processor at rest", file=sys.stderr, flush=True)
    return [server, str(streams), *(_spread(values, form) for values, form in columns)]


def _spread(values: Sequence[float], form: str) -> str:
    """Median, least and largest."""
    return f"{form.format(median(values))} ({form.format(min(values))} to {form.format(max(values))})"


_HEAD = (
    "server", "streams", "processor time of the front: ms a request", "and µs a token", "first token later by, ms",
    "processor time of the server alone: µs a token",
)  # fmt: skip
_REST_HEAD = ("server at rest", "processor time, ms a second", "first token before the warm-up : after it")
_FULL_HEAD = (
    "tokens a second offered", "in an event", "passed on", "processors in use", "events a read",
    "tokens a second of processor time",
)  # fmt: skip


def main(words: Sequence[str]) -> int:
    """Measure, and print or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="store_true")
    parser.add_argument("--rest", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args(words)
    number: int = chosen.rounds
    if chosen.rest:
        where = f"({in_words(describe(TINY))})"
        figures, mark = f"{table(_REST_HEAD, _shown(resting(number)))}\n\n{where}", "rest"
    else:
        rows = [*_shown(paced(number)), *(_shown(real(number)) if chosen.model else ())]
        figures, mark = f"{table(_HEAD, rows)}\n\n{table(_FULL_HEAD, _shown(full(number)))}", "front"
    print(figures)
    if chosen.write:
        PAGE.write_text(put_into(PAGE.read_text(encoding="utf-8"), figures, mark), encoding="utf-8")
    return 0


def _shown(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    for row in rows:
        print("  ".join(row), file=sys.stderr, flush=True)
        yield row


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
