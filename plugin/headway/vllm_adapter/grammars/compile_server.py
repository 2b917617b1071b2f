"""The process that compiles grammars as the engine would: each in a child of its own, with bounded time and memory.

    python -m headway.vllm_adapter.grammars.compile_server

The process loads the tokenizer and the compiler once and has no thread of its own, so a child is a copy that can
compile at once. The system ends a child that uses more processor time or memory than it may, and this process ends a
child that takes too long: both have grammars that the engine must not get. The orders come as ``frames``; with the end
of its input the process ends, and every child with it. Nothing that it or the compilers print is kept: it may be text
of a request.
"""

from __future__ import annotations

import ctypes
import os
import resource
import selectors
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headway.vllm_adapter.grammars.frames import Failure, Frames, Limits, Order, Report, Start, Verdict, packed
from headway.vllm_adapter.grammars.walk import TooSlowError, walk

_READ_BYTES = 1 << 16
_NICE = 19  # a grammar that is to be refused takes no time from the engine
_PR_SET_PDEATHSIG = 1
_MOST_WORDS = 400
_MORE_S = 2  # of processor time, for the walk
_PAGE_BYTES = resource.getpagesize()

#: Compiles the fields of vLLM's ``StructuredOutputsParams``. Raises what the engine would, or TooSlowError.
Compile = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class _Child:
    number: int
    pid: int
    until_s: float


class CompileServer:
    """The server of compilations: takes orders from ``orders`` and reports to ``reports``, both file descriptors."""

    def __init__(self, compile_one: Compile, limits: Limits, orders: int, reports: int) -> None:
        self._compile = compile_one
        self._limits = limits
        self._orders, self._reports = orders, reports
        self._frames = Frames()
        self._children: dict[int, _Child] = {}  # by the pipe from which its verdict comes
        self._selector = selectors.DefaultSelector()
        self._selector.register(orders, selectors.EVENT_READ)

    def run(self, frames: Frames | None = None) -> None:
        """Serve until the input ends; ``frames`` may hold what was read before."""
        self._frames = frames or self._frames
        try:
            self._carry_out(b"")  # an order may have come with what was read before
            while True:
                ready = [key.fd for key, _ in self._selector.select(self._left_s())]
                for verdicts in ready:
                    if verdicts != self._orders:
                        self._settle(verdicts)
                if self._orders in ready and not self._read():  # last: an order may end a child, and close its pipe
                    return
                self._end_overdue()
        finally:
            for child in self._children.values():
                os.kill(child.pid, signal.SIGKILL)

    def _read(self) -> bool:
        """Carry out the orders that have come; False at the end of the input."""
        data = os.read(self._orders, _READ_BYTES)
        self._carry_out(data)
        return bool(data)

    def _carry_out(self, data: bytes) -> None:
        for order in self._frames.feed(data):
            if order.fields is None:
                self._end(order.number)
            else:
                self._begin(order)

    def _begin(self, order: Order) -> None:
        verdicts, writing = os.pipe()
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            self._compile_and_exit(order, writing, parent)
        os.close(writing)
        self._children[verdicts] = _Child(order.number, pid, time.monotonic() + self._limits.wall_s)
        self._selector.register(verdicts, selectors.EVENT_READ)

    def _compile_and_exit(self, order: Order, writing: int, parent: int) -> None:
        """Compile in the child. A grammar that uses up its bounds leaves no verdict: the system ends the child."""
        verdict: Verdict | None = Verdict.INVALID
        try:
            end_with(parent)
            os.close(self._orders)
            os.close(self._reports)  # or its end would not be seen while this child lives
            bound_this_process(self._limits)
            self._compile(order.fields or {})
            verdict = Verdict.FITS
        except MemoryError:
            verdict = None
        except TooSlowError:
            verdict = Verdict.TOO_SLOW
        except Exception:
            verdict = Verdict.INVALID
        finally:
            if verdict is not None:
                os.write(writing, bytes([verdict]))
            os._exit(0)

    def _settle(self, verdicts: int) -> None:
        """Report a child that has ended, with a verdict or without."""
        said = os.read(verdicts, 1)
        child = self._forget(verdicts)
        self._report(child.number, Verdict(said[0]) if said else Verdict.TOO_LARGE)

    def _end(self, number: int) -> None:
        for verdicts in [fd for fd, child in self._children.items() if child.number == number]:
            self._forget(verdicts)

    def _end_overdue(self) -> None:
        now_s = time.monotonic()
        for verdicts in [fd for fd, child in self._children.items() if child.until_s <= now_s]:
            self._report(self._forget(verdicts).number, Verdict.OVERDUE)

    def _forget(self, verdicts: int) -> _Child:
        child = self._children.pop(verdicts)
        self._selector.unregister(verdicts)
        os.close(verdicts)
        os.kill(child.pid, signal.SIGKILL)  # it has ended, or it must
        os.waitpid(child.pid, 0)
        return child

    def _report(self, number: int, verdict: Verdict) -> None:
        left = packed(Report(number, verdict))
        while left:
            left = left[os.write(self._reports, left) :]

    def _left_s(self) -> float | None:
        """The time until the first child is overdue."""
        if not self._children:
            return None
        return max(0.0, min(child.until_s for child in self._children.values()) - time.monotonic())


def end_with(parent: int) -> None:
    """Have the system end this process when its parent ends, or now where the parent has ended already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def bound_this_process(limits: Limits) -> None:
    """Bound the processor time of this process, and the memory beside what it has."""
    with open("/proc/self/statm", encoding="ascii") as file:
        size_bytes = int(file.read().split()[0]) * _PAGE_BYTES
    most_bytes = size_bytes + limits.memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (limits.processor_s, limits.processor_s + _MORE_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def more_processor_time() -> None:
    """Allow ``_MORE_S`` more, for the walk after a compilation that has used up all but a moment of its own."""
    _, most_s = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (most_s, most_s))


def compiler_of(vllm_config: Any) -> Compile:
    """A function that does with a structured output what vLLM does in the API server and in the engine, then walks.

    The walk through the grammar tells what each token costs.
    """
    from vllm.sampling_params import SamplingParams, StructuredOutputsParams
    from vllm.tokenizers import cached_tokenizer_from_config
    from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend
    from vllm.v1.structured_output.request import get_structured_output_key

    model, outputs = vllm_config.model_config, vllm_config.structured_outputs_config
    tokenizer = cached_tokenizer_from_config(model_config=model)
    common = {"tokenizer": tokenizer, "vocab_size": model.get_vocab_size()}
    special = frozenset(getattr(tokenizer, "all_special_ids", ()))
    encoded = (tokenizer.encode(bracket, add_special_tokens=False) for bracket in "[{(")
    opening = tuple(ids[0] for ids in encoded if len(ids) == 1)
    backends = {"xgrammar": XgrammarBackend(vllm_config, **common)}

    def compile_one(fields: dict[str, Any]) -> None:
        params = SamplingParams(structured_outputs=StructuredOutputsParams(**fields))
        params._validate_structured_outputs(model, outputs, tokenizer)
        chosen: Any = params.structured_outputs
        name = str(chosen._backend)
        backend = backends.get(name) or _backend_class(name)(vllm_config, **common)
        grammar = backend.compile_grammar(*get_structured_output_key(chosen))
        more_processor_time()
        walk(grammar, backend.allocate_token_bitmask(1), special, opening)

    return compile_one


def _backend_class(name: str) -> Any:
    if name == "guidance":
        from vllm.v1.structured_output.backend_guidance import GuidanceBackend

        return GuidanceBackend
    if name == "outlines":
        from vllm.v1.structured_output.backend_outlines import OutlinesBackend

        return OutlinesBackend
    from vllm.v1.structured_output.backend_lm_format_enforcer import LMFormatEnforcerBackend

    return LMFormatEnforcerBackend


def first_frame(frames: Frames, orders: int) -> Any:
    """The first frame of the input; None where the input ends before."""
    while data := os.read(orders, _READ_BYTES):
        for frame in frames.feed(data):
            return frame
    return None


def main() -> int:
    """Serve until the input ends; returns 1 where the configuration cannot be used, and the last frame says why."""
    os.nice(_NICE)
    orders, reports = os.dup(0), os.dup(1)
    silence = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(silence, standard)
    frames = Frames()
    start = first_frame(frames, orders)
    if not isinstance(start, Start):
        return 1
    try:
        compile_one = compiler_of(start.vllm_config)
    except Exception as error:
        os.write(reports, packed(Failure(f"{type(error).__name__}: {error}"[:_MOST_WORDS])))
        return 1
    os.write(reports, packed(Report(0, Verdict.FITS)))
    CompileServer(compile_one, start.limits, orders, reports).run(frames)
    return 0


if __name__ == "__main__":
    sys.exit(main())
