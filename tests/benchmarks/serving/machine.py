"""On what a run was measured."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway_tools.console.machine import read_machine
from serving.client import dtype


def describe(model: Path) -> dict[str, Any]:
    """The machine, the release of vLLM, the model and the type of its weights."""
    import torch
    import vllm

    return {
        "processor": processor(),
        "dtype": dtype(),
        "cores": os.cpu_count(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "",
        "vllm": vllm.__version__,
        "model": model.name,
    }


def in_words(machine: Mapping[str, Any]) -> str:
    """For the line below a table."""
    where = machine["gpu"] or f"{machine['cores']} cores, {machine['processor']}"
    weights = f", {machine['dtype']}" if machine.get("dtype", "auto") != "auto" else ""
    return f"vLLM {machine['vllm']}, {machine['model']}{weights}, {where}"


def processor() -> str:
    """The processor: its name where the system tells it, and what makes its 16-bit floats slow."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    machine = read_machine(os.environ)
    lacks = " without AVX-512" if machine.slow_16bit else " without AVX512_BF16" if machine.emulated_bf16 else ""
    return f"{name or platform.machine()}{lacks}"
