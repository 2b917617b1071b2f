"""vLLM's own launcher as a child process: what it tells its parent of the engine, and who keeps that pipe open."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from headway.own_server.engine import EngineFacts
from headway.vllm_adapter import own_server
from headway.vllm_adapter.engine_adapter import VllmAdapter
from headway.vllm_adapter.own_server import Channel, report_engine


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Both ends of a pipe; each is closed unless a test has closed it."""
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue


def test_each_message_is_a_line(pipe: tuple[int, int]) -> None:
    """A parent that has ended is no fault of this process."""
    reading, writing = pipe
    channel = Channel(writing)
    channel.send(settings={"port": 8000})
    channel.send(error="no\nmemory")
    assert [json.loads(line) for line in os.read(reading, 1000).splitlines()] == [
        {"settings": {"port": 8000}}, {"error": "no\nmemory"},
    ]  # fmt: skip
    os.close(reading)
    channel.send(error="no memory")


def test_a_child_that_is_only_forked_does_not_keep_the_pipe_open(pipe: tuple[int, int]) -> None:
    """The messages end with the process that sends them."""
    reading, writing = pipe
    Channel(writing)
    gate, opened = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(gate, 1)
        os._exit(0)
    os.close(writing)
    assert os.read(reading, 1) == b""
    os.write(opened, b"x")
    os.waitpid(child, 0)
    os.close(gate)
    os.close(opened)


class Manager:
    """What starts the engine processes, as far as its arguments."""

    def __init__(self, ranks: int, *, vllm_config: Any) -> None:
        self.ranks = ranks


def test_the_engine_is_reported_when_it_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of its ranks' seats and places for adapters, before any of them runs."""
    module = ModuleType("starter")
    module.Manager = Manager  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "starter", module)
    monkeypatch.setattr(own_server, "STARTER", ("starter", "Manager"))
    monkeypatch.setattr(Manager, "__init__", Manager.__init__)
    monkeypatch.setattr(VllmAdapter, "fingerprint", lambda self, engine: "f")
    sent = list[Any]()
    report_engine(lambda **message: sent.append(message))
    config = SimpleNamespace(
        scheduler_config=SimpleNamespace(max_num_seqs=8, max_num_batched_tokens=512),
        parallel_config=SimpleNamespace(data_parallel_size=2),
        device_config=SimpleNamespace(device_type="cpu"),
        model_config=SimpleNamespace(dtype="torch.float32", quantization=None, max_model_len=2048),
        cache_config=SimpleNamespace(cache_dtype="auto"),
        lora_config=SimpleNamespace(max_loras=3),
    )
    assert sent == []
    assert Manager(2, vllm_config=config).ranks == 2
    facts = EngineFacts.read(json.loads(json.dumps(sent[0]["engine"])))
    assert (facts.seats, facts.device, facts.settings.max_model_len) == (16, "cpu", 2048)
    assert facts.settings.max_loras == 6
