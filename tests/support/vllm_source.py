"""The source of vLLM that tests read: the installed one, or that of another release."""

from __future__ import annotations

import os
from pathlib import Path

from headway_tools.doctor.contract.source import VllmSource as VllmSource

#: The folder that holds the package `vllm`; without it the installed one is read.
VARIABLE = "HEADWAY_TEST_VLLM_SOURCE"


def found_source() -> VllmSource | None:
    """The source that the variable names, else the installed one; None where there is none."""
    folder = os.environ.get(VARIABLE)
    return VllmSource.installed() if folder is None else VllmSource(Path(folder) / "vllm")
