"""The GPUs that NVIDIA's driver shows."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import Final

_WITHIN_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class GpuLoad:
    """The load of a GPU now; None for what its driver does not tell, such as of a slice of a card (MIG)."""

    memory_mib: float | None
    busy_percent: float | None
    power_w: float | None


def gpus() -> list[str]:
    """A line for each GPU: name, total and free memory in MiB, driver. Raises OSError where the driver does not say."""
    return _asked("name,memory.total,memory.free,driver_version", "csv,noheader")


def gpu_loads() -> list[GpuLoad]:
    """The load of each GPU now. Raises OSError where the driver does not say."""
    lines = _asked("memory.used,utilization.gpu,power.draw", "csv,noheader,nounits")
    return [GpuLoad(*(_number(cell) for cell in (*line.split(","), "", "", "")[:3])) for line in lines]


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _asked(fields: str, form: str) -> list[str]:
    program = shutil.which("nvidia-smi")
    if program is None:
        raise FileNotFoundError("nvidia-smi is not there")
    try:
        done = subprocess.run(  # noqa: S603 - a program of the system, with fixed words
            [program, f"--query-gpu={fields}", f"--format={form}"],
            capture_output=True,
            text=True,
            timeout=_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"nvidia-smi does not answer in {_WITHIN_S:g} s") from None
    if done.returncode != 0:
        raise OSError(f"nvidia-smi failed: {' '.join((done.stderr or done.stdout).split())[:200]}")
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]
