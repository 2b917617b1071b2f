"""The port: what Headway needs of an engine, and the adapter for the differences between engines.

vLLM's ``AsyncLLM`` has this shape; ``headway.engine.fake.FakeEngine`` ships for programs that want to test without it.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from headway.errors import NoEngineError, Refused
from headway_policies import Block, Load, Progress, Usage
from headway_policies.memory import Cache
from headway_policies.preset import Ability
from headway_policies.step import StepFigures, StepTerms

_CHARACTERS_PER_TOKEN = 4


@runtime_checkable
class Engine(Protocol):
    """An engine that generates, request by request, under ids chosen by the caller."""

    @property
    def errored(self) -> bool:
        """Whether the engine is dead."""
        ...

    def generate(self, prompt: Any, sampling_params: Any, request_id: str, **options: Any) -> AsyncGenerator[Any, None]:
        """Run one request. ``priority`` among the options is the engine's own: smaller is more urgent."""
        ...

    async def abort(self, request_id: str) -> None:
        """Stop a request. An id that the engine does not know is ignored."""
        ...


@dataclass(frozen=True, slots=True)
class Invalid:
    """The fault of a call that the engine does not take: the HTTP status, a sentence, and the parameter."""

    status: int
    message: str
    parameter: str | None = None


#: Waits until the engine may have a call; raises the engine's own error where it must not.
Check = Callable[[], Awaitable[None]]


class EngineAdapter(Protocol):
    """The adapter to one make of engine."""

    def seats(self, sampling_params: Any) -> int:
        """The number of sequences that a call with these parameters runs."""
        ...

    def size(self, prompt: Any, sampling_params: Any) -> tuple[int, int | None]:
        """The prompt tokens of each sequence, 0 when unknown, and the most tokens that it may generate, where set."""
        ...

    def check(self, prompt: Any, sampling_params: Any, tenant: str) -> Check | None:
        """A check to wait for before the engine may have a call of a tenant; None for no check.

        The check raises the engine's own error where the engine must not have the call.
        """
        ...

    def usage(self, output: Any, sequences: int) -> Usage | None:
        """The usage of a call of so many sequences, by its last output, for engines that do not report it when it
        ends; None where that does not tell it.
        """
        ...

    def dropped(self, engine: Any, request_ids: Any, *, internal: bool) -> Sequence[Ended]:
        """The sequences that an abort of these calls is about to end, with the engine's counts so far.

        ``internal``: the ids are the engine's own. Empty where an engine does not say.
        """
        ...

    def unstreamed(self, sampling_params: Any) -> bool:
        """Whether a call with these parameters has no output but its last."""
        ...

    def tokens(self, engine: Any, request_id: str) -> int | None:
        """The tokens so far of an unstreamed call; None when unknown: then each engine step counts as a token."""
        ...

    def first_token_delay_s(self, output: Any) -> float | None:
        """The time to first token in seconds, where only the engine knows it.

        None when the output is that first token, NaN where the time is not known.
        """
        ...

    def unfinished(self, output: Any) -> bool:
        """Whether this last output of a call was cut short by an abort."""
        ...

    def error(self, refused: Refused) -> Exception:
        """The refusal as an error that this engine's own front end handles."""
        ...

    def invalid(self, error: Exception) -> Invalid | None:
        """The fault of the call that raised this error; None where its caller is not at fault."""
        ...

    def takes_later(self, error: Exception) -> bool:
        """Whether the engine has computed nothing of the call that raised this error, and may take the call later."""
        ...

    def unwell(self) -> Exception:
        """The error that a health check raises while the engine is unresponsive or dead."""
        ...

    def ends_late(self, sampling_params: Any) -> bool:
        """Whether the engine may run a sequence of such a call for a moment after its end was reported."""
        ...

    async def ping(self, engine: Any) -> PingAnswer | None:
        """Wait for the engine's answer to a ping; None where the engine cannot be pinged.

        The engine answers in its turn: it has processed by then what was sent to it before, aborts above all.
        """
        ...

    async def catch_up(self, engine: Any) -> None:
        """Wait for a ping, and until the engine's earlier reports have been read."""
        ...

    def progress(self, engine: Any) -> Sequence[Progress]:
        """The progress that each engine reports, also during a step; empty where no engine does."""
        ...

    def engine_seats(self, engine: Any) -> int | None:
        """The most sequences that the engine can run at once; None when unknown."""
        ...

    def settings(self, engine: Any) -> EngineSettings:
        """The known settings that decide how many sequences fit into the engine's memory."""
        ...

    def lacks(self, engine: Any) -> frozenset[Ability]:
        """The abilities that parts of a preset need and this kind of engine does not have."""
        ...

    def fingerprint(self, engine: Any) -> str:
        """A key of the engine's model, hardware and flags: engines that share it run alike. Empty where not known."""
        ...

    async def limit_engine(self, engine: Any, seats: int) -> int | None:
        """Set the engine's own limit between two steps; returns its present value, None without such a setting."""
        ...

    async def shape_steps(self, engine: Any, terms: StepTerms | None) -> None:
        """Have the engine compute prompts by these terms from its next step on; None: as by itself."""
        ...

    def step_figures(self, engine: Any) -> StepFigures | None:
        """The effect of these terms so far, by the engine's last report; None where no step was planned by any."""
        ...

    async def memory(self, engine: Any) -> Mapping[str, int]:
        """Bytes that the engine keeps from its start on, by component; empty where unknown."""
        ...

    async def clear_cache(self, engine: Any, cache: Cache) -> bool:
        """Clear one of the engine's caches; False where the engine has none, or cannot now. Ends no request."""
        ...

    def listen(self, engine: Any, listener: StepListener) -> bool:
        """Have each engine step reported to the listener; False where the engine reports none."""
        ...


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The formats of an engine's weights and KV cache; "" and None where unknown, "none" for no quantisation.

    ``step_tokens``: the most tokens that one step computes; ``max_loras`` the most LoRA adapters, None without a bound.
    """

    dtype: str = ""
    quantization: str = ""
    kv_cache_dtype: str = ""
    max_model_len: int | None = None
    step_tokens: int | None = None
    max_loras: int | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """A sequence that ended in the engine: the id of its call, its tokens, and why it ended, "" where unknown.

    ``cached_tokens`` are those of the prompt that the engine did not have to compute.
    """

    request_id: str
    prompt_tokens: int = 0
    output_tokens: int = 0
    finish_reason: str = ""
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class PingAnswer:
    """The answer of an engine to a ping: its pause and its sleep, where it reports them."""

    blocks: frozenset[Block] = frozenset()


class StepListener(Protocol):
    """A receiver of the engine's step reports."""

    def step(self, load: Load | None, sequences: int, ended: Sequence[Ended]) -> None:
        """Take one step: its load where known, the number of its sequences, and those that ended in it."""
        ...

    def heard(self) -> bool:
        """Note another step like the last one. Whether it may be reported later, together with the next ones."""
        ...

    def seen(self, load: Load) -> None:
        """Take a load that was read, which says nothing of whether the engine makes steps."""
        ...


class PlainAdapter:
    """The adapter of a plain engine: one sequence a call, every output a token, no limit of its own."""

    def seats(self, sampling_params: Any) -> int:
        """OpenAI's ``n``, where the parameters have it, else 1."""
        return int(getattr(sampling_params, "n", 1) or 1)

    def size(self, prompt: Any, sampling_params: Any) -> tuple[int, int | None]:
        """The tokens of the prompt, and ``max_tokens`` where the parameters have it."""
        return prompt_tokens(prompt), getattr(sampling_params, "max_tokens", None)

    def check(self, prompt: Any, sampling_params: Any, tenant: str) -> Check | None:
        """No check."""
        return None

    def usage(self, output: Any, sequences: int) -> Usage | None:
        """The usage by the ``tokens`` of the last output, where the output has all of one sequence."""
        tokens = getattr(output, "tokens", None)
        if tokens is None:
            return None
        return Usage(sequences * getattr(output, "prompt_tokens", 0), sequences * len(tokens))

    def dropped(self, engine: Any, request_ids: Any, *, internal: bool) -> Sequence[Ended]:
        """None that are known: the last output of a call says what it has used."""
        return ()

    def unstreamed(self, sampling_params: Any) -> bool:
        """False: every token is streamed."""
        return False

    def tokens(self, engine: Any, request_id: str) -> int | None:
        """None: all calls stream."""
        return None

    def first_token_delay_s(self, output: Any) -> float | None:
        """None: the first output is the first token."""
        return None

    def unfinished(self, output: Any) -> bool:
        """False: only Headway aborts."""
        return False

    def error(self, refused: Refused) -> Exception:
        """The refusal itself."""
        return refused

    def invalid(self, error: Exception) -> Invalid | None:
        """None: the engine's errors are unknown."""
        return None

    def takes_later(self, error: Exception) -> bool:
        """False: the engine's errors are unknown."""
        return False

    def unwell(self) -> Exception:
        """A plain error."""
        return NoEngineError("the engine is unresponsive")

    def ends_late(self, sampling_params: Any) -> bool:
        """False: a sequence reported as ended has ended."""
        return False

    async def catch_up(self, engine: Any) -> None:
        """Wait for a ping only: no report is read."""
        await self.ping(engine)

    async def ping(self, engine: Any) -> PingAnswer | None:
        """Ask the engine's ``ping``, ``is_paused`` and ``is_sleeping``, where they exist."""
        ping = getattr(engine, "ping", None)
        if ping is None:
            return None
        await ping()
        asks = {Block.ENGINE_PAUSED: "is_paused", Block.ENGINE_ASLEEP: "is_sleeping"}
        said = [(block, await getattr(engine, name)()) for block, name in asks.items() if hasattr(engine, name)]
        return PingAnswer(frozenset(block for block, there in said if there))

    def progress(self, engine: Any) -> Sequence[Progress]:
        """The report of the engine's ``progress``, where it exists."""
        progress = getattr(engine, "progress", None)
        return () if progress is None else (progress(),)

    def engine_seats(self, engine: Any) -> int | None:
        """The engine's ``max_num_seqs``, where it exists."""
        seats = getattr(engine, "max_num_seqs", None)
        return None if seats is None else int(seats)

    def settings(self, engine: Any) -> EngineSettings:
        """Unknown settings, but for the engine's ``max_loras``, where it exists."""
        return EngineSettings(max_loras=getattr(engine, "max_loras", None))

    def lacks(self, engine: Any) -> frozenset[Ability]:
        """The abilities of caches and steps, and of progress without a ``progress``."""
        reports = getattr(engine, "progress", None) is not None
        lacks = {Ability.CACHES, Ability.SHAPES}
        return frozenset(lacks if reports else lacks | {Ability.PROGRESS})

    def fingerprint(self, engine: Any) -> str:
        """No key: model and hardware are unknown."""
        return ""

    async def limit_engine(self, engine: Any, seats: int) -> int | None:
        """No such setting."""
        return None

    async def shape_steps(self, engine: Any, terms: StepTerms | None) -> None:
        """Do nothing: the engine shapes its own steps."""

    def step_figures(self, engine: Any) -> StepFigures | None:
        """None are planned."""
        return None

    async def memory(self, engine: Any) -> Mapping[str, int]:
        """No components: the engine's memory is unknown."""
        return {}

    async def clear_cache(self, engine: Any, cache: Cache) -> bool:
        """False: no cache is known."""
        return False

    def listen(self, engine: Any, listener: StepListener) -> bool:
        """Call the engine's ``listen``, where it exists; without it a seat is free when its generator ends."""
        listen = getattr(engine, "listen", None)
        if listen is None:
            return False
        listen(listener)
        return True


def prompt_bytes(prompt: Any) -> int:
    """The memory of a prompt, its text or its list of tokens; 0 for anything else."""
    if isinstance(prompt, Mapping):
        ids = prompt.get("prompt_token_ids")
        return prompt_bytes(prompt.get("prompt") if ids is None else ids)
    content = getattr(prompt, "prompt_token_ids", prompt)
    return sys.getsizeof(content) if isinstance(content, str | list | tuple) else 0


def prompt_tokens(prompt: Any) -> int:
    """The length of a prompt: of tokens exactly, of text by its characters, else 0."""
    if isinstance(prompt, Mapping):
        ids = prompt.get("prompt_token_ids")
        return prompt_tokens(prompt.get("prompt") if ids is None else ids)
    if isinstance(prompt, str):
        return len(prompt) // _CHARACTERS_PER_TOKEN
    return len(prompt) if isinstance(prompt, list | tuple) else 0
