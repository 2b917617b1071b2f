"""Limits of Linux control groups, in version 1 and 2: of this process's own group and of all above it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_UNLIMITED = 1 << 62  # what version 1 reports, about


def memory_left(root: Path = Path("/")) -> int | None:
    """The bytes that the limits of memory leave; None without a limit. ``root`` is where ``/proc`` and ``/sys`` are.

    The pages of files that were read count as used, as vLLM counts them.
    """
    return min((max(0, most - used) for most, used, _ in _memory_limits(root)), default=None)


def memory_free(root: Path = Path("/")) -> int | None:
    """The bytes that the limits of memory leave once the kernel takes back the pages of files; None without a limit."""
    return min((max(0, most - max(0, used - cached)) for most, used, cached in _memory_limits(root)), default=None)


def memory_limit(root: Path = Path("/")) -> int | None:
    """The smallest limit of memory in bytes; None without one."""
    return min((most for most, _, _ in _memory_limits(root)), default=None)


def outermost_memory_limit(root: Path = Path("/")) -> int | None:
    """The limit of memory in bytes that vLLM looks at: that of the outermost group, in a container its own."""
    limits = [_number(root / "sys/fs/cgroup" / file) for file in ("memory.max", "memory/memory.limit_in_bytes")]
    return next((most for most in limits if most is not None and most < _UNLIMITED), None)


def cpu_quota(root: Path = Path("/")) -> float:
    """The processors that the quotas of processor time allow; infinity without one."""
    return min(_quotas(root))


def _memory_limits(root: Path) -> Iterator[tuple[int, int, int]]:
    """Each limit of memory, the bytes that are used of it, and those among them that the kernel can take back."""
    for hierarchy, limit, usage, cached in (
        ("", "memory.max", "memory.current", ("active_file", "inactive_file", "slab_reclaimable")),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file")),
    ):
        for folder in _groups(root, hierarchy):
            most = _number(folder / limit)
            if most is not None and most < _UNLIMITED:
                pages = dict(line.split()[:2] for line in _text(folder / "memory.stat").splitlines() if " " in line)
                yield most, _number(folder / usage) or 0, sum(int(pages.get(name, "0")) for name in cached)


def _quotas(root: Path) -> Iterator[float]:
    """The processors that each quota allows; infinity ends the list, which is never empty."""
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
