"""Which processes are ended with an engine in a program, which may have other children and other engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sleeping_cores import Child, async_llm, core_client, end, sleeping_core

from headway.vllm_adapter.process import engine_replacer
from headway.vllm_adapter.process.engine_replacer import VllmReplacer


@pytest.fixture
def children() -> Iterator[list[Child]]:
    """Children of this process; those that are left at the end are killed."""
    started: list[Child] = []
    yield started
    end(started)


def core(children: list[Child], name: str = "EngineCore") -> Child:
    """One more child."""
    children.append(sleeping_core(name))
    return children[-1]


def test_a_kill_spares_the_other_engines_and_children_of_a_program(children: list[Child]) -> None:
    """Also those that were started after this one was wrapped."""
    own = core(children)
    replacer = VllmReplacer(async_llm(core_client(own)), owns_process=False)
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
    replacer = VllmReplacer(async_llm(core_client(own)), owns_process=False)
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
