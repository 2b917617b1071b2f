"""What ``headway serve`` chooses on vLLM's CPU backend, so that a first start succeeds, and soon.

* The KV cache: vLLM's own choice is nine tenths of *all* memory, and it ends with an error where less is free. Chosen
  is half of the free memory that the weights and vLLM's processes leave, in whole GiB, for each worker.
* Compilation: on a few cores it takes minutes at the first start, and again at the first request for logprobs, in the
  middle of a step. There, and where no C++ compiler is, vLLM is started eagerly.
* The type of the weights: on an x86 processor without AVX-512 vLLM's products of 16-bit floats take several times as
  long as those of 32-bit floats, and a batch gains nothing. Weights of a local folder that are neither quantised nor
  too large for the memory are loaded as float32 there.
* Cores: each worker's threads are bound, and one core is left to the front end and EngineCore. With one worker vLLM
  does so itself; with several on one memory node it ends with an error, unless it is given lists. Under a quota of
  processor time there are as many threads as it allows, less one, on any core.

A variable or a flag of the user's wins, on the command line or in ``--config``. Nothing here looks at vLLM, which takes
seconds to import.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.cli.environment import api_servers, value_in
from headway.console import Machine, has, model_of, value_of

_GIB = 2**30
_PROCESSES_BYTES = 3 * _GIB  # API server, EngineCore and a worker, without weights: 2.6 GiB was seen
_API_SERVER_BYTES = _GIB  # each beside the first: 0.75 GiB was seen
_WEIGHTS_GROWTH = 1.2  # weights in memory, beside what loading them takes
_FEW_CPUS = 8
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")

_SPACE = "VLLM_CPU_KVCACHE_SPACE"
_EAGER = "TORCHDYNAMO_DISABLE"
_BIND = "VLLM_CPU_OMP_THREADS_BIND"
_THREADS = "OMP_NUM_THREADS"
_SPACE_FLAGS = ("--kv-cache-memory-bytes", "--gpu-memory-utilization")
_COMPILE_FLAGS = ("--no-enforce-eager", "--compilation-config", "-cc", "--optimization-level")
_NO_BINDING = "nobind"
_TRUE = ("true", "True", "yes", "on", "1")
_TYPE_FLAGS = ("--dtype", "--quantization", "-q", "--load-format", "--hf-overrides")
_16BIT = ("bfloat16", "float16")
_WORKER_FLAGS = (
    ("--tensor-parallel-size", "-tp"),
    ("--pipeline-parallel-size", "-pp"),
    ("--data-parallel-size", "-dp"),
)


@dataclass(frozen=True, slots=True)
class CpuStart:
    """What was chosen: variables and flags for vLLM, the reason for each, and a warning where it may not suffice."""

    environment: Mapping[str, str]
    flags: tuple[str, ...]
    reasons: tuple[str, ...]
    warning: str | None = None

    def line(self) -> str:
        """One line for the user; empty where nothing was chosen."""
        return f"{'; '.join(self.reasons)}; set your own to override" if self.reasons else ""


def choose(machine: Machine, engine: Sequence[str], config: str, environ: Mapping[str, str]) -> CpuStart:
    """The choices for these words of vLLM's, the text of its ``--config`` file, and this environment."""
    environment: dict[str, str] = {}
    flags: list[str] = []
    reasons: list[str] = []
    warning = None

    def given(*names: str) -> bool:
        return any(has(engine, name) or value_in(config, name) is not None for name in names)

    workers = math.prod(_whole(_first(engine, config, names)) for names in _WORKER_FLAGS)
    processes = _PROCESSES_BYTES + _API_SERVER_BYTES * (api_servers(engine, config) - 1) // workers
    free, weights = _free_by_worker(machine, workers), _WEIGHTS_GROWTH * _weight_bytes(engine) / workers
    fits = free - processes - 2 * weights >= _GIB
    if machine.slow_16bit and fits and not given(*_TYPE_FLAGS) and _has_16bit_weights(engine):
        weights *= 2
        flags += ["--dtype", "float32"]
        reasons.append("--dtype float32 (without AVX-512 16-bit floats are several times slower)")
    if not environ.get(_SPACE) and not given(*_SPACE_FLAGS):
        left = free - processes - int(weights)
        space = max(1, left // (2 * _GIB))
        environment[_SPACE] = str(space)
        reasons.append(f"{_SPACE}={space} (GiB, of {free / _GIB:.1f} free)")
        if left < _GIB:
            warning = (
                f"only {free / _GIB:.1f} GiB of memory are free for each worker; the weights and vLLM's processes need "
                f"about {(free - left) / _GIB:.1f} GiB, the KV cache 1 GiB or more: free some, or take a smaller model"
            )
    eager = has(engine, "--enforce-eager") or value_in(config, "--enforce-eager") in _TRUE
    if not given("--enforce-eager", *_COMPILE_FLAGS) and not _level(engine) and _EAGER not in environ:
        why = _why_eager(machine)
        if why:
            eager = True
            flags.append("--enforce-eager")
            reasons.append(f"--enforce-eager ({why})")
    if _EAGER not in environ and (eager or not machine.compiles):
        environment[_EAGER] = "1"
        reasons.append(f"{_EAGER}=1")
    if _BIND not in environ:
        environment[_BIND] = binding = _binding(machine, workers)
        spared = " (a core is left to the front end)" if binding != _NO_BINDING and len(machine.cores) > 1 else ""
        reasons.append(f"{_BIND}={binding}{spared}")
        if binding == _NO_BINDING and _THREADS not in environ:
            environment[_THREADS] = str(max(1, int(machine.cpus - 1) // workers))
            reasons.append(f"{_THREADS}={environment[_THREADS]}")
    return CpuStart(environment, tuple(flags), tuple(reasons), warning)


def _free_by_worker(machine: Machine, workers: int) -> int:
    """vLLM gives each worker a memory node, and looks at the memory of that node alone."""
    by_node = min(machine.node_bytes) // math.ceil(workers / len(machine.node_bytes))
    return by_node if machine.group_bytes is None else min(by_node, machine.group_bytes // workers)


def _why_eager(machine: Machine) -> str:
    if not machine.compiles:
        return "no C++ compiler"
    return f"a compiled start takes minutes on {machine.cpus:.3g} cores" if machine.cpus <= _FEW_CPUS else ""


def _binding(machine: Machine, workers: int) -> str:
    """For one worker, or one on each node, vLLM's own choice; else all cores but the first in equal lists.

    None is bound where a quota allows less than the cores that are there, or there are too few cores for the workers.
    """
    cores = machine.cores
    if machine.cpus < len(cores) or (workers > 1 and len(cores) <= workers):
        return _NO_BINDING
    if workers <= len(machine.node_bytes):
        return "auto"
    each = (len(cores) - 1) // workers
    return "|".join(",".join(map(str, cores[1 + each * at :][:each])) for at in range(workers))


def _weight_bytes(engine: Sequence[str]) -> int:
    """The size of the weights in a local folder; 0 where they are not here yet."""
    folder = Path(model_of(engine) or "")
    for pattern in _WEIGHTS:
        if model_of(engine) and (files := list(folder.glob(pattern))):
            return sum(file.stat().st_size for file in files if file.is_file())
    return 0


def _has_16bit_weights(engine: Sequence[str]) -> bool:
    """Whether the model is a local folder whose weights are 16-bit floats, by its ``config.json``."""
    try:
        config = json.loads((Path(model_of(engine) or "") / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if not isinstance(config, dict) or "quantization_config" in config:
        return False
    return (config.get("dtype") or config.get("torch_dtype")) in _16BIT


def _level(engine: Sequence[str]) -> bool:
    """Whether an optimisation level is given, such as ``-O3``."""
    return any(re.match(r"-O|-cc\.|--compilation-config\.", word) for word in engine)


def _first(engine: Sequence[str], config: str, names: Sequence[str]) -> str | None:
    readings: tuple[Callable[[str], str | None], ...] = (
        lambda name: value_of(engine, name),
        lambda name: value_in(config, name),
    )
    return next((text for read in readings for name in names if (text := read(name)) is not None), None)


def _whole(text: str | None) -> int:
    """A number of workers; 1 for what vLLM will refuse."""
    return max(1, int(text)) if text is not None and text.isascii() and text.isdecimal() else 1
