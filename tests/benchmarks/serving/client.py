"""The client of all arms: sends requests to one engine, through Headway's gate or past it, and writes down what came.

``bare`` calls vLLM's own ``generate`` on the very engine that is wrapped, so that all arms share its process, its
weights and its hardware; vLLM's own cap on unfinished requests is set between two blocks.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from math import inf
from pathlib import Path
from random import Random
from typing import Any, Literal

import headway
from headway.api.schema import Forecast
from headway.audit import Caller
from headway.errors import Refused
from headway_policies import Preset
from headway_policies.step import StepFigures
from headway_simulator.traffic.workload import Request
from headway_tools.console import cpu_backend, read_machine
from serving.fixed_steps import FIX

MODEL_LEN = 2560
TINY = Path(__file__).resolve().parents[3] / ".models" / "tiny"
_BLOCK_TOKENS = 32
_CALLER = Caller("benchmark")
_LOOK_S = 0.05
_MOST_WORDS = 40_000  # ids of tokens, of a vocabulary that has more
#: vLLM's priorities: a smaller number is more urgent.
_RANKS = {"realtime": 0, "normal": 1, "batch": 2}


@dataclass(slots=True)
class Answer:
    """What one request got; times in seconds of one clock, None for what never came.

    ``asked_tokens`` is the length of the answer that was asked for; ``cached_tokens`` of its prompt were found in the
    engine's prefix cache. In a closed loop ``lead_tokens`` had come by ``lead_s``, when what counts began. ``marks_s``
    are the times at which tokens came. ``end`` is ``completed``, ``cut`` where the block ended first, or the reason of
    a refusal.
    """

    class_name: str
    tenant: str
    prompt_tokens: int
    sent_s: float
    first_s: float | None = None
    last_s: float | None = None
    tokens: int = 0
    end: str = "cut"
    cached_tokens: int = 0
    asked_tokens: int = 0
    lead_tokens: int = 0
    lead_s: float | None = None
    marks_s: list[float] = field(default_factory=list)

    def after_lead(self) -> tuple[float, int] | None:
        """The time in which the tokens after the lead came, and their number; None for none."""
        began_s, before = (self.first_s, 1) if self.lead_s is None else (self.lead_s, self.lead_tokens)
        if began_s is None or self.last_s is None or self.tokens <= before:
            return None
        return self.last_s - began_s, self.tokens - before

    @property
    def ttft_s(self) -> float | None:
        """From sending to the first token."""
        return None if self.first_s is None else self.first_s - self.sent_s

    @property
    def inter_token_s(self) -> float | None:
        """The mean time between tokens; None for fewer than two."""
        if self.first_s is None or self.last_s is None or self.tokens < 2:
            return None
        return (self.last_s - self.first_s) / (self.tokens - 1)


#: Sends a request and fills in its answer.
Send = Callable[[Request, Answer], Coroutine[Any, Any, None]]


class Engine:
    """One wrapped engine."""

    def __init__(self, engine: Any, seats: int) -> None:
        self._engine = engine
        self.seats = seats
        self._ids = count()
        self._random = Random(0)
        self._vocabulary = min(_MOST_WORDS, engine.model_config.get_vocab_size())

    async def use(self, preset: Preset) -> None:
        """Put a preset in force, without a forecast of it: a block would be measured beside the forecast's process."""
        control = self._engine.headway
        control.catalogue.include(preset)
        await control.switch(preset.name, expected_revision=None, caller=_CALLER)
        control.forecast_errors.stop()

    async def forecast(self, names: Sequence[str], span_s: float) -> Forecast:
        """What these presets would do with the requests of the last ``span_s`` seconds."""
        forecasts = self._engine.headway.forecasts
        found: Forecast = await forecasts.of(forecasts.known(names), span_s=span_s)
        return found

    def first_token_slo_s(self, class_name: str) -> float:
        """The objective of a class of the preset for the first token, on the engine as it is now; infinite for none."""
        found: float | None = self._engine.headway.gateway.gate.desk.objectives(class_name).ttft_s
        return inf if found is None else found

    def running(self) -> int:
        """The sequences that the engine runs, by its last report."""
        running: int = self._engine.headway.activity.load.running
        return running

    async def idle(self) -> None:
        """Wait until no request of any arm is left in the engine: one that was cut may run on for a while."""
        while self._engine.output_processor.has_unfinished_requests():  # noqa: ASYNC110 - vLLM has no event for it
            await asyncio.sleep(_LOOK_S)

    def cap(self, requests: int | None) -> None:
        """vLLM's ``--max-num-queued-reqs``: how many requests may be unfinished; None for any number."""
        self._engine.scheduler_config.max_num_queued_reqs = requests

    async def fix_steps(self, budget: int | None, threshold: int | None) -> None:
        """vLLM's ``--max-num-batched-tokens`` and ``--long-prefill-token-threshold``; None as it comes."""
        await self._engine.engine_core.call_utility_async(FIX, budget, threshold)

    def step_figures(self) -> StepFigures:
        """What came of the step policy so far, by EngineCore's last report of at most half a second ago."""
        found: StepFigures | None = self._engine.headway.activity.steps
        return found or StepFigures()

    async def gated(self, request: Request, answer: Answer) -> None:
        """Run one request through Headway."""
        try:
            await self._read(self._call(self._engine.generate, request, request.class_name, request.tenant), answer)
        except Refused as refused:
            answer.end = refused.reason.value

    async def bare(self, request: Request, answer: Answer) -> None:
        """Run one request on the engine itself; all have the same priority."""
        await self._ungated(request, 0, answer)

    async def ranked(self, request: Request, answer: Answer) -> None:
        """Run one request on the engine itself, with the priority of its class."""
        await self._ungated(request, _RANKS[request.class_name], answer)

    async def _ungated(self, request: Request, rank: int, answer: Answer) -> None:
        from vllm.exceptions import QueueOverflowError

        own = self._engine._headway_base.generate
        try:
            await self._read(
                self._call(lambda *words, **more: own(self._engine, *words, **more), request, rank), answer
            )
        except QueueOverflowError:
            answer.end = "max_num_queued_reqs"

    def _call(self, generate: Any, request: Request, priority: object, tenant: str | None = None) -> Any:
        """The stream of one answer; its prompt is random after the prefix that it shares with others, if any."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        kind = RequestOutputKind.DELTA
        params = SamplingParams(max_tokens=request.output_tokens, ignore_eos=True, temperature=0.0, output_kind=kind)
        most, own = self._vocabulary, request.prompt_tokens - request.prefix_tokens
        shared = _words(Random(request.prefix), request.prefix_tokens, most)
        prompt = {"prompt_token_ids": shared + _words(self._random, own, most)}
        more = {} if tenant is None else {"tenant": tenant}
        return generate(prompt, params, f"b{next(self._ids)}", priority=priority, **more)

    async def _read(self, stream: Any, answer: Answer) -> None:
        now_s = asyncio.get_running_loop().time
        async with aclosing(stream):
            async for output in stream:
                answer.last_s = now_s()
                answer.first_s = answer.first_s or answer.last_s
                answer.marks_s.append(answer.last_s)
                answer.tokens += sum(len(one.token_ids) for one in output.outputs)
                answer.cached_tokens = output.num_cached_tokens or 0
        answer.end = "completed"


def _words(random: Random, count: int, most: int) -> list[int]:
    return [random.randrange(1000, most) for _ in range(count)]


@asynccontextmanager
async def started(
    model: Path,
    preset: Preset,
    seats: int,
    model_len: int = MODEL_LEN,
    *,
    kv_tokens: int | None = None,
    keeps_prefixes: bool = False,
    learnt: str = "",
) -> AsyncIterator[Engine]:
    """An engine with so many seats of its own, its queue in order of priority; it is shut down at the end.

    ``kv_tokens``: the size of its KV cache; ``learnt``: the folder that its limit starts from, "" for none. Its weights
    have the type that ``headway serve`` chooses or proposes here.
    """
    eager = not prepare()
    os.environ["HEADWAY_CACHE_DIR"] = learnt
    from vllm import AsyncEngineArgs
    from vllm.engine.async_llm_engine import AsyncLLMEngine

    args = AsyncEngineArgs(
        model=str(model),
        enforce_eager=eager,
        max_model_len=model_len,
        max_num_seqs=seats,
        scheduling_policy="priority",
        enable_prefix_caching=keeps_prefixes,
        dtype=dtype(),
        block_size=None if kv_tokens is None else _BLOCK_TOKENS,
        num_gpu_blocks_override=None if kv_tokens is None else kv_tokens // _BLOCK_TOKENS + 1,
    )
    engine = headway.wrap(AsyncLLMEngine.from_engine_args(args), preset=preset, warmup=True)
    try:
        await engine.headway.warm_up()
        yield Engine(engine, seats)
    finally:
        engine.shutdown()


def prepare() -> bool:
    """Set what vLLM reads when it is imported: nothing is downloaded, and without a GPU nothing is compiled.

    Whether there is a GPU.
    """
    found = on_gpu()
    os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "HEADWAY_CACHE_DIR": ""}
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    if not found:
        os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    return found


def on_gpu() -> bool:
    """Whether there is an NVIDIA GPU."""
    return shutil.which("nvidia-smi") is not None


def dtype() -> Literal["auto", "float32"]:
    """The type of the weights: as the model has them, or 32-bit where 16-bit ones are slow or emulated."""
    machine = read_machine(os.environ)
    return "float32" if cpu_backend() and (machine.slow_16bit or machine.emulated_bf16) else "auto"


async def open_loop(send: Send, requests: Sequence[Request], length_s: float, *, early: bool = False) -> list[Answer]:
    """Send each request at its time, whatever came of the others; end all that still runs after ``length_s``.

    ``early``: it is over as soon as each request has ended.
    """
    now_s = asyncio.get_running_loop().time
    begin_s, answers, tasks = now_s(), list[Answer](), list[asyncio.Task[None]]()
    for request in requests:
        await asyncio.sleep(max(0.0, begin_s + request.at_s - now_s()))
        # the time is when it was due: a client that is late itself hides nothing
        answers.append(_answer_to(request, begin_s + request.at_s))
        tasks.append(asyncio.create_task(send(request, answers[-1])))
    left_s = max(0.0, begin_s + length_s - now_s())
    if early and tasks:
        await asyncio.wait(tasks, timeout=left_s)
    else:
        await asyncio.sleep(left_s)
    await ended(tasks)
    return answers


async def closed_loop(
    send: Send, draw: Callable[[Random], Request], clients: int, lead_s: float, length_s: float
) -> list[Answer]:
    """So many clients that each send the next request when the last has ended; what ran after ``lead_s``."""
    now_s = asyncio.get_running_loop().time
    begin_s, answers = now_s(), list[Answer]()

    async def client(number: int) -> None:
        random = Random(number)
        while True:
            request = draw(random)
            answer = _answer_to(request, now_s())
            answers.append(answer)
            await send(request, answer)

    tasks = [asyncio.create_task(client(number)) for number in range(clients)]
    await asyncio.sleep(lead_s)
    for answer in answers:
        answer.lead_tokens, answer.lead_s = answer.tokens, answer.last_s
    await asyncio.sleep(length_s)
    await ended(tasks)
    return [one for one in answers if one.last_s is not None and one.last_s >= begin_s + lead_s]


async def backlog(send: Send, requests: Sequence[Request], clients: int, most_s: float) -> tuple[list[Answer], float]:
    """So many clients share these requests, in this order; the answers as far as they came until the last request was
    taken, or ``most_s`` had passed, and the seconds until then.

    Up to that moment each answer that ends is followed by another request: no tail of empty seats is counted.
    """
    now_s = asyncio.get_running_loop().time
    begin_s, answers, left, taken = now_s(), list[Answer](), iter(requests), asyncio.Event()

    async def client() -> None:
        try:
            for request in left:
                answers.append(_answer_to(request, now_s()))
                if len(answers) == len(requests):
                    taken.set()
                await send(request, answers[-1])
        finally:
            taken.set()  # also where it fails

    tasks = [asyncio.create_task(client()) for _ in range(clients)]
    with suppress(TimeoutError):
        await asyncio.wait_for(taken.wait(), most_s)
    took_s = now_s() - begin_s
    await ended(tasks)
    return answers, took_s


def _answer_to(request: Request, sent_s: float) -> Answer:
    answer = Answer(request.class_name, request.tenant, request.prompt_tokens, sent_s)
    answer.asked_tokens = request.output_tokens
    return answer


async def ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel what still runs, and raise what failed otherwise."""
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
            raise result
