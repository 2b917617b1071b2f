"""What the tests of the adapter share."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def logger_class(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The stat logger's class on a base class of no consequence."""
    for name in ("vllm", "vllm.v1", "vllm.v1.metrics", "vllm.v1.metrics.loggers"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules["vllm.v1.metrics.loggers"], "AggregateStatLoggerBase", object, raising=False)
    monkeypatch.delitem(sys.modules, "headway.vllm_adapter.stats", raising=False)
    yield importlib.import_module("headway.vllm_adapter.stats").HeadwayStatLogger
    sys.modules.pop("headway.vllm_adapter.stats", None)
