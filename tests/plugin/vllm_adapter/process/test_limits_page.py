"""The page of limits: written by the queue before several API servers, and read by EngineCore before its steps."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from engine_family import FAMILY
from stand_in_scheduler import StandInScheduler

from headway.own_server.engine import EngineFacts, OwnServerAdapter
from headway.vllm_adapter.engine_core_hooks import get_limits, set_limits
from headway.vllm_adapter.process.limits_page import LimitsPage, follow_limits_page
from headway.vllm_adapter.process.progress import PAGE_BYTES, REPORTS_BYTES, VARIABLE
from headway_policies.step import StepTerms

TERMS = StepTerms(0.4, "2.5x", {0: 0.5, 2: "3x"})


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LimitsPage:
    """The writer's side, of a file as the server prepares it."""
    path = tmp_path / "engine.progress"
    path.write_bytes(bytes(REPORTS_BYTES + PAGE_BYTES))
    monkeypatch.setenv(VARIABLE, str(path))
    return LimitsPage(path)


def core_class() -> type[Any]:
    """EngineCore as far as it is followed, with a scheduler; a class of its own, which is changed."""

    class Core:
        def __init__(self) -> None:
            self.scheduler = StandInScheduler(FAMILY["two cores"])

        def step(self) -> int:
            """How many sequences it may run."""
            return int(self.scheduler.max_num_active_reqs)

    return Core


def following(set_them: Any = set_limits) -> Any:
    """An engine that follows the page."""
    made = core_class()
    follow_limits_page(made, set_them)
    return made()


async def test_a_limit_holds_from_the_next_step_on_in_every_rank(page: LimitsPage) -> None:
    """Each rank gets an equal part, rounded up; the answer is what all of them together run at most."""
    adapter = OwnServerAdapter(EngineFacts(2 * 256, ranks=2), page=page)
    ranks = following(), following()
    assert [one.step() for one in ranks] == [256, 256]
    assert await adapter.limit_engine(None, 5) == 6
    assert [one.step() for one in ranks] == [3, 3]
    assert await adapter.limit_engine(None, 1000) == 2 * 256
    assert [one.step() for one in ranks] == [256, 256]


async def test_the_terms_of_a_preset_reach_the_steps(page: LimitsPage) -> None:
    """The terms are put in force and out, beside the limit."""
    adapter, core = OwnServerAdapter(EngineFacts(8), page=page), following()
    await adapter.limit_engine(None, 8)
    await adapter.shape_steps(None, TERMS)
    core.step()
    assert core.headway_step_shaper.policy.terms == TERMS
    await adapter.shape_steps(None, None)
    assert core.step() == 8
    assert core.headway_step_shaper.policy.terms is None


async def test_an_engine_that_is_started_again_keeps_them_from_its_first_step_on(page: LimitsPage) -> None:
    """Nothing is written anew for it."""
    await OwnServerAdapter(EngineFacts(8), page=page).limit_engine(None, 5)
    assert following().step() == 5


def test_what_is_being_written_waits_for_the_step_after(page: LimitsPage) -> None:
    """A page half written fails its checksum, and the limits of before stay."""
    core = following()
    page.write(max_num_active_reqs=7)
    core.step()
    page._head[2] += 1
    page._head[0] += 1
    assert core.step() == 7
    page.write(max_num_active_reqs=6)
    assert core.step() == 6


def test_limits_that_do_not_fit_are_refused(page: LimitsPage) -> None:
    """The limits of before stay."""
    page.write(max_num_active_reqs=7)
    with pytest.raises(ValueError, match="and the page has"):
        page.write(step="x" * PAGE_BYTES)
    assert page.read() == {"max_num_active_reqs": 7}


def test_a_step_does_not_fail_for_its_limits(page: LimitsPage, caplog: pytest.LogCaptureFixture) -> None:
    """A limit that cannot be set is logged, once."""

    def refuse(core: Any, limits: dict[str, Any]) -> None:
        raise KeyError("step")

    core = following(refuse)
    page.write(max_num_active_reqs=7)
    assert (core.step(), core.step()) == (256, 256)
    assert caplog.text.count("EngineCore keeps the limits it has: KeyError") == 1


def test_a_call_and_the_page_set_the_same(page: LimitsPage) -> None:
    """A server without several API servers says by a call what the page says."""
    core, called = following(), SimpleNamespace(scheduler=StandInScheduler(FAMILY["two cores"]))
    limits = {"max_num_active_reqs": 4, "step": TERMS.plain()}
    page.write(**limits)
    core.step()
    set_limits(called, limits)
    assert get_limits(core) == get_limits(called)


def test_the_operators_own_bound_is_never_raised() -> None:
    """``--max-num-active-seqs`` lies below what the model runner was started for."""
    core = SimpleNamespace(scheduler=StandInScheduler(FAMILY["two cores"], max_num_active_seqs=8))
    set_limits(core, {"max_num_active_reqs": 100})
    assert get_limits(core) == {"max_num_active_reqs": 8}
    set_limits(core, {"max_num_active_reqs": 4})
    assert get_limits(core) == {"max_num_active_reqs": 4}


def test_an_engine_without_the_file_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nobody that would write."""
    monkeypatch.setenv(VARIABLE, "/nowhere")
    made = core_class()
    step = made.step
    follow_limits_page(made, set_limits)
    assert made.step is step
