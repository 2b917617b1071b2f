"""The release of Headway."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """The installed version of Headway."""
    try:
        return metadata.version("vllm-headway")
    except metadata.PackageNotFoundError:
        return "0+unknown"
