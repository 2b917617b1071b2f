"""The file between EngineCore and the process with the queue, as the server prepares it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headway.vllm_adapter.process.progress import FILE_BYTES, VARIABLE


def prepared_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one in this folder, named by the environment."""
    path = folder / "engine.progress"
    path.touch()
    os.truncate(path, FILE_BYTES)
    monkeypatch.setenv(VARIABLE, str(path))
    return path
