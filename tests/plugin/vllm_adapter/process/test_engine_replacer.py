"""Which processes are ended with an engine in a program, which may have other children and other engines."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from headway.vllm_adapter.process import engine_replacer
from headway.vllm_adapter.process.engine_replacer import VllmReplacer

Child = multiprocessing.process.BaseProcess


@pytest.fixture
def children() -> Iterator[list[Child]]:
    """Children of this process; those that are left at the end are killed."""
    started: list[Child] = []
    yield started
    for one in started:
        one.kill()  # type: ignore[attr-defined]  # of every context's process
        one.join()


def core(children: list[Child], name: str = "EngineCore") -> Child:
    """A child with the name that vLLM gives its engine cores."""
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,), name=name, daemon=True)
    child.start()
    children.append(child)
    return child


def client_of(process: Child) -> Any:
    """As much of an AsyncLLM as is looked at."""
    manager = SimpleNamespace(processes=[process])
    return SimpleNamespace(
        engine_core=SimpleNamespace(resources=SimpleNamespace(engine_manager=manager), shutdown=lambda timeout: None),
        output_handler=None,
        output_processor=SimpleNamespace(request_states={}, abort_requests=lambda ids, internal: None),
        _run_output_handler=lambda: None,
    )


def test_a_kill_spares_the_other_engines_and_children_of_a_program(children: list[Child]) -> None:
    """Also those that were started after this one was wrapped."""
    own = core(children)
    replacer = VllmReplacer(client_of(own), owns_process=False)
    other, worker = core(children), core(children, "a worker of the program")
    replacer.kill()
    own.join(10)
    assert not own.is_alive()
    assert other.is_alive()
    assert worker.is_alive()


async def test_a_kill_ends_a_core_that_is_still_starting(
    children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that this replacer starts, and no other engine's."""
    own = core(children)
    replacer = VllmReplacer(client_of(own), owns_process=False)
    other = core(children)
    own.kill()  # type: ignore[attr-defined]  # of every context's process
    own.join(10)

    def starting(client: Any) -> Any:
        new = core(children)
        replacer.kill()  # the program is closing meanwhile
        new.join(10)
        assert not new.is_alive()
        raise RuntimeError("killed")

    monkeypatch.setattr(engine_replacer, "_end_questions", lambda core: None)  # it imports vLLM
    monkeypatch.setattr(engine_replacer, "another_core", starting)
    with pytest.raises(RuntimeError, match="killed"):
        await replacer.start()
    assert other.is_alive()
