"""Flags that make an engine smaller or slower than vLLM's own choices: information, each with its price."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Final

from headway.checks.finding import Finding, info
from headway_tools.console import cpu_backend
from headway_tools.doctor.gpus import gpus

#: vLLM's own ``--max-num-seqs`` (engine/arg_utils.py, get_batch_defaults): on a CPU for each worker, on a usual GPU,
#: and on a large one.
CPU_SEATS: Final = 128
GPU_SEATS: Final = 256
LARGE_GPU_SEATS: Final = 1024
_LARGE_MIB = 70 * 1024
_MEMORY = re.compile(r", (\d+) MiB")
_SLOWER = "each token takes longer (a quarter, with a 135M model on 2 cores)"


def check_engine_flags(args: Namespace) -> Iterator[Finding]:
    """The findings about arguments of ``vllm serve`` that ask for less than vLLM would choose."""
    seats = getattr(args, "max_num_seqs", None)
    if seats is not None and seats < (usual := vllms_seats(args)):
        yield fewer_seats(f"--max-num-seqs {seats}", seats, f"vLLM's own number here is {usual}")
    if getattr(args, "enforce_eager", False):
        what = f"--enforce-eager: the model is not compiled; the server is ready sooner, but {_SLOWER}"
        yield info(what, "leave it out (--enforce-eager, --quick-start) where the server runs for long")


def fewer_seats(found: str, seats: int, usual: str) -> Finding:
    """An engine with fewer seats than vLLM would give it."""
    what = f"{found}: the engine runs at most {seats} sequences, and no preset gets more; {usual}"
    return info(what, "leave --max-num-seqs out for more throughput; the limit of the preset keeps the time of tokens")


def vllms_seats(args: Namespace) -> int:
    """The sequences that vLLM would choose for this machine and these arguments."""
    if cpu_backend():
        return CPU_SEATS * (getattr(args, "workers", None) or 1)
    return LARGE_GPU_SEATS if _large(_gpus()) else GPU_SEATS


def _gpus() -> Sequence[str]:
    try:
        return gpus()
    except OSError:
        return ()


def _large(lines: Sequence[str]) -> bool:
    """Whether the first GPU is one of those for which vLLM chooses the larger number; an A100 is not."""
    found = _MEMORY.search(lines[0]) if lines else None
    return found is not None and int(found[1]) >= _LARGE_MIB and "a100" not in lines[0].lower()
