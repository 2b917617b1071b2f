"""The GPUs that NVIDIA's driver shows."""

from __future__ import annotations

import shutil
import subprocess
from typing import Final

_WITHIN_S: Final = 20.0


def gpus() -> list[str]:
    """A line for each GPU: name, total and free memory in MiB, driver. Raises OSError where the driver does not say."""
    return asked("name,memory.total,memory.free,driver_version", "csv,noheader")


def asked(fields: str, form: str) -> list[str]:
    """The lines of these fields, one for each GPU. Raises OSError where the driver does not say."""
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
