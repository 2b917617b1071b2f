"""The folder in which a server keeps what it has learnt for the next server, and the writing of its files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from headway.settings import Environment


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder for the knowledge that a server keeps for the next one; None where nothing is kept."""
    folder = Environment(environment).cache_dir
    if folder is None:
        caches = environment.get("XDG_CACHE_HOME") or "~/.cache"
        folder = str(Path(environment.get("VLLM_CACHE_ROOT") or f"{caches}/vllm") / "headway")
    return Path(os.path.expanduser(folder)) if folder else None


def write_cache_file(path: Path, text: str) -> None:
    """Write a file of that folder whole or not at all: a reader sees the old text or the new text. Raises OSError."""
    part = path.with_suffix(f".{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    part.write_text(text, encoding="utf-8")
    part.replace(path)
