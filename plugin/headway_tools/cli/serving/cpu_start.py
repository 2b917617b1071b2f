"""The choices of ``headway serve`` on vLLM's CPU backend, so that a first start succeeds.

Each choice is made only where vLLM's own would end with an error or be slower: nothing here makes an engine slower or
smaller than ``vllm serve`` does.

* The KV cache (``headway_tools.cli.serving.kv_space``), where vLLM's own would be larger than what is free.
* Compilation is impossible without a C++ compiler: there vLLM is started eagerly.
* The type of the weights: on an x86 processor without AVX-512 vLLM's products of 16-bit floats take several times as
  long as those of 32-bit floats, and a batch gains nothing. Weights of a local folder that are neither quantised nor
  too large for the memory are loaded as float32 there. With AVX-512 and neither AVX512_BF16 nor AMX, float32 is faster
  for prompts and batches and slower for one sequence alone: chosen for a quick start, and proposed otherwise.
* Cores: vLLM itself binds the threads of one worker on each memory node, and leaves a core of it to the front end and
  EngineCore. Several workers on one node end with an error, unless they are given lists. Under a quota of processor
  time vLLM would start a thread for each core that it sees; as many threads run as the quota allows, less one, on any
  core.

``--max-num-seqs`` and ``--max-num-batched-tokens`` are vLLM's own (128 sequences and 2048 tokens for each worker on a
CPU), and never lowered: a seat that is not taken costs next to nothing. Measured: 41 MiB more for 1024 sequences than
for 64, of 2.1 GiB (SmolLM2-135M, 8192 tokens).

A variable or a flag of the user's wins, on the command line or in ``--config``. Nothing here looks at vLLM, which takes
seconds to import.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headway_tools.cli.serving.compilation import without_compiler
from headway_tools.cli.serving.environment import api_servers, value_in
from headway_tools.cli.serving.kv_space import SPACE, WorkerMemory, vllms_own_fits
from headway_tools.console import Machine, has, model_of, value_of

_BIND = "VLLM_CPU_OMP_THREADS_BIND"
_THREADS = "OMP_NUM_THREADS"
_SPACE_FLAGS = ("--kv-cache-memory-bytes", "--gpu-memory-utilization")
_NO_BINDING: Final = "nobind"
_TYPE_FLAGS = ("--dtype", "--quantization", "-q", "--load-format", "--hf-overrides")
#: Measured with SmolLM2-135M on two cores of an Ice Lake: prompts 3.2, 32 sequences 2.3, 8 1.6, one 0.66 times as fast.
_EMULATED: Final = (
    "without AVX512_BF16 prompts are about three times and batches about twice as fast, one sequence alone is slower"
)
_16BIT = ("bfloat16", "float16")
_WORKER_FLAGS = (
    ("--tensor-parallel-size", "-tp"),
    ("--pipeline-parallel-size", "-pp"),
)
_RANK_FLAGS = ("--data-parallel-size", "-dp")


@dataclass(frozen=True, slots=True)
class CpuStart:
    """The choices for a start: variables and flags for vLLM, the reason for each, a warning of a lack, and a proposal
    that is the user's to make.
    """

    environment: Mapping[str, str]
    flags: tuple[str, ...]
    reasons: tuple[str, ...]
    warning: str | None = None
    proposal: str | None = None

    def line(self) -> str:
        """The line for the user; empty where nothing was chosen."""
        return f"{'; '.join(self.reasons)}; set your own to override" if self.reasons else ""

    def __add__(self, other: CpuStart) -> CpuStart:
        """Both choices."""
        return CpuStart(
            {**self.environment, **other.environment},
            self.flags + other.flags,
            self.reasons + other.reasons,
            self.warning or other.warning,
            self.proposal or other.proposal,
        )


NOTHING: Final = CpuStart({}, (), ())


@dataclass(frozen=True, slots=True)
class _Asked:
    """The user's settings: the words of vLLM's, the text of its ``--config`` file, and the environment."""

    engine: Sequence[str]
    config: str
    environ: Mapping[str, str]

    def given(self, *names: str) -> bool:
        """Whether any of these flags is set."""
        return any(has(self.engine, name) or value_in(self.config, name) is not None for name in names)

    def workers(self) -> int:
        """The number of workers, of all ranks."""
        return workers(self.engine, self.config, *_WORKER_FLAGS, _RANK_FLAGS)


def choose(
    machine: Machine, engine: Sequence[str], config: str, environ: Mapping[str, str], *, quick: bool = False
) -> CpuStart:
    """The choices for these words of vLLM's, the text of its ``--config`` file, and this environment."""
    asked = _Asked(engine, config, environ)
    memory = WorkerMemory.of(machine, engine, asked.workers(), api_servers(engine, config))
    weights = _weight_type(machine, asked, memory, quick=quick)
    if weights.flags:
        memory = memory.with_twice_the_weights()
    space = _kv_space(machine, asked, memory, quick=quick)
    return weights + space + _compilation(machine, asked) + _cores(machine, asked)


def workers(engine: Sequence[str], config: str, *flags: Sequence[str]) -> int:
    """The number of workers, by default those of one rank; 1 for what vLLM will refuse."""
    return math.prod(_whole(_first(engine, config, names)) for names in flags or _WORKER_FLAGS)


def _weight_type(machine: Machine, asked: _Asked, memory: WorkerMemory, *, quick: bool) -> CpuStart:
    slow = machine.slow_16bit or machine.emulated_bf16
    fits = memory.with_twice_the_weights().is_enough
    if not (slow and fits and _has_16bit_weights(asked.engine)) or asked.given(*_TYPE_FLAGS):
        return NOTHING
    if machine.emulated_bf16 and not quick:
        return CpuStart({}, (), (), proposal=f"--dtype float32: {_EMULATED}")
    reason = _EMULATED if machine.emulated_bf16 else "without AVX-512 16-bit floats are several times slower"
    return CpuStart({}, ("--dtype", "float32"), (f"--dtype float32 ({reason})",))


def _kv_space(machine: Machine, asked: _Asked, memory: WorkerMemory, *, quick: bool) -> CpuStart:
    if asked.environ.get(SPACE) or asked.given(*_SPACE_FLAGS):
        return NOTHING
    if not quick and vllms_own_fits(machine, asked.workers(), memory.front_end):
        return NOTHING
    warning = None if memory.is_enough else memory.warning()
    return CpuStart({SPACE: str(memory.space_gib())}, (), (memory.reason(),), warning)


def _compilation(machine: Machine, asked: _Asked) -> CpuStart:
    if machine.compiles:
        return NOTHING
    chosen = without_compiler(asked.engine, asked.config, asked.environ)
    reasons = (f"{chosen.words()} (no C++ compiler: with one, tokens are faster)",) if chosen.words() else ()
    return CpuStart(chosen.environment, chosen.flags, reasons)


def _cores(machine: Machine, asked: _Asked) -> CpuStart:
    """Lists for several workers on one node: all cores but the first, in equal parts. Nothing where vLLM's own will do.

    None is bound where a quota allows less than the cores that are there, or there are too few cores for the workers.
    """
    cores, workers = machine.cores, asked.workers()
    if _BIND in asked.environ:
        return NOTHING
    if machine.cpus < len(cores) or (workers > 1 and len(cores) <= workers):
        return _unbound(machine, asked)
    if workers <= len(machine.node_bytes):
        return NOTHING
    each = (len(cores) - 1) // workers
    binding = "|".join(",".join(map(str, cores[1 + each * at :][:each])) for at in range(workers))
    return CpuStart({_BIND: binding}, (), (f"{_BIND}={binding} (a core is left to the front end)",))


def _unbound(machine: Machine, asked: _Asked) -> CpuStart:
    if _THREADS in asked.environ:
        return CpuStart({_BIND: _NO_BINDING}, (), (f"{_BIND}={_NO_BINDING}",))
    threads = str(max(1, int(machine.cpus - 1) // asked.workers()))
    reasons = (f"{_BIND}={_NO_BINDING}", f"{_THREADS}={threads}")
    return CpuStart({_BIND: _NO_BINDING, _THREADS: threads}, (), reasons)


def _has_16bit_weights(engine: Sequence[str]) -> bool:
    """Whether the model is a local folder whose weights are 16-bit floats, by its ``config.json``."""
    try:
        config = json.loads((Path(model_of(engine) or "") / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if not isinstance(config, dict) or "quantization_config" in config:
        return False
    return (config.get("dtype") or config.get("torch_dtype")) in _16BIT


def _first(engine: Sequence[str], config: str, names: Sequence[str]) -> str | None:
    readings: tuple[Callable[[str], str | None], ...] = (
        lambda name: value_of(engine, name),
        lambda name: value_in(config, name),
    )
    return next((text for read in readings for name in names if (text := read(name)) is not None), None)


def _whole(text: str | None) -> int:
    """A number of workers; 1 for what vLLM will refuse."""
    return max(1, int(text)) if text is not None and text.isascii() and text.isdecimal() else 1
