"""The steps of a scheduler that stands in for vLLM's, as the process with the queue reads them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from engine_family import FAMILY
from progress_file import prepared_file
from stand_in_scheduler import Output, StandInRequest, StandInScheduler

from headway.vllm_adapter import step_recorder
from headway.vllm_adapter.engine_core_hooks import set_limits
from headway.vllm_adapter.process.progress import VARIABLE
from headway.vllm_adapter.process.step_ring import StepRingReader
from headway.vllm_adapter.step_recorder import StepRecorder, record_steps
from headway.vllm_adapter.step_shaper import StepShaper
from headway_policies import Load
from headway_policies.step import StepTerms

MODEL = FAMILY["two cores"]


class SeveralClients(StandInScheduler):
    """Answers as vLLM's does: what each of two API servers gets, and the statistics with the first of these."""

    stats, mute = True, False

    def update_from_output(self, output: Output, _: Any = None) -> Any:
        """Those that have a token, by the parity of their ids."""
        super().update_from_output(output)
        found: dict[int, Any] = {}
        for one in output.num_scheduled_tokens:
            if not one.is_prefill_chunk and not self.mute:
                found.setdefault(one.id % 2, SimpleNamespace(outputs=[], scheduler_stats=None)).outputs.append(one)
        first = next(iter(found.values()), None) or found.setdefault(0, SimpleNamespace(outputs=[]))
        numbers = {"num_running_reqs": len(self.running), "num_waiting_reqs": len(self.waiting)}
        first.scheduler_stats = SimpleNamespace(**numbers, kv_cache_usage=0.25) if self.stats else None
        return found


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file between EngineCore and the queue, as the server prepares it."""
    return prepared_file(tmp_path, monkeypatch)


def core_of(scheduler: SeveralClients, monkeypatch: pytest.MonkeyPatch) -> Any:
    """EngineCore as far as its steps are recorded, on the clock of the scheduler."""

    class Core:
        def __init__(self) -> None:
            self.scheduler = scheduler

        def step(self) -> None:
            self.scheduler.step()

    record_steps(Core)
    monkeypatch.setattr(step_recorder, "StepRecorder", partial(StepRecorder, clock=scheduler.clock))
    return Core()


def recorded(core: Any, file: Path, *asked: StandInRequest) -> list[Load]:
    """The steps until these are answered."""
    reader, scheduler = StepRingReader(file, 1), core.scheduler
    reader.read()
    scheduler.waiting.extend(asked)
    while scheduler.running or scheduler.waiting:
        core.step()
    return [load for load, _ in reader.read()]


def test_each_step_has_its_time_its_sequences_and_its_prompt_tokens(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever API server the tokens go to. A prompt that takes several steps counts in each of them."""
    scheduler = SeveralClients(MODEL)
    core = core_of(scheduler, monkeypatch)
    steps = recorded(core, file, *(StandInRequest(16, 40) for _ in range(4)))
    assert [(one.prefill_tokens, one.first_tokens, one.inter_token_s) for one in steps[:1]] == [(64, 4, None)]
    assert [one.running for one in steps] == [4] * 39 + [0]
    scheduler.max_num_scheduled_tokens = 34
    scheduler.waiting.extend(StandInRequest(16, 40) for _ in range(2))
    core.step()
    scheduler.steps.clear()
    steps = recorded(core, file, StandInRequest(100, 2))
    assert [one.prefill_tokens for one in steps[:5]] == [32, 32, 32, 4, 0]
    assert [one.first_tokens for one in steps[:5]] == [0, 0, 0, 1, 0]
    times = [took_s for took_s, _, _ in scheduler.steps]
    assert [one.inter_token_s for one in steps] == pytest.approx(times)
    assert {one.kv_usage_ratio for one in steps} == {0.25}


def test_a_prompt_of_one_token_after_a_rest_is_no_slow_step(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing ran before it, whose next token it could be."""
    scheduler = SeveralClients(MODEL)
    core = core_of(scheduler, monkeypatch)
    recorded(core, file, StandInRequest(16, 4))
    scheduler.now_s += 30.0
    first, *others = recorded(core, file, StandInRequest(1, 3))
    assert (first.inter_token_s, first.prefill_tokens, first.first_tokens) == (None, 1, 1)
    assert all(one.inter_token_s and one.inter_token_s < 1 for one in others)


def test_a_step_without_a_token_is_a_step(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that admits nothing steps all the same; it serves nobody."""
    scheduler = SeveralClients(MODEL)
    core, reader = core_of(scheduler, monkeypatch), StepRingReader(file, 1)
    scheduler.max_num_active_reqs = 0
    scheduler.waiting.append(StandInRequest(16, 4))
    core.step()
    core.step()
    loads = [(one.running, one.waiting, one.first_tokens, one.inter_token_s) for one, _ in reader.read()]
    assert loads == [(0, 1, 0, None)] * 2


def test_a_sequence_without_a_token_is_not_served(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it decodes in each step, as one that is stuck."""
    scheduler = SeveralClients(MODEL)
    core, reader = core_of(scheduler, monkeypatch), StepRingReader(file, 1)
    scheduler.waiting.append(StandInRequest(16, 40))
    core.step()
    core.step()
    scheduler.mute = True
    core.step()
    loads = [(one.running, one.first_tokens, one.inter_token_s is None) for one, _ in reader.read()]
    assert loads == [(1, 1, True), (1, 0, False), (1, 0, True)]


def test_it_goes_on_below_a_step_policy_and_after_that_gave_up(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both take the place of a method of the scheduler."""
    scheduler = SeveralClients(MODEL)
    core = core_of(scheduler, monkeypatch)
    assert len(recorded(core, file, StandInRequest(16, 5))) == 5
    set_limits(core, {"step": StepTerms(0.4, None, {}).plain()})
    shaper = core.headway_step_shaper
    assert isinstance(shaper, StepShaper)
    assert len(recorded(core, file, StandInRequest(16, 5))) == 5
    shaper._give_up(ValueError("another vLLM"))
    assert len(recorded(core, file, StandInRequest(16, 5))) == 5


def test_it_goes_on_above_a_step_policy_that_gives_up(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a server with one API process, which sets its limits before the first step."""
    scheduler = SeveralClients(MODEL)
    core = core_of(scheduler, monkeypatch)
    set_limits(core, {"step": StepTerms(0.4, None, {}).plain()})
    shaper = core.headway_step_shaper
    assert isinstance(shaper, StepShaper)
    assert len(recorded(core, file, StandInRequest(16, 5))) == 5
    shaper._give_up(ValueError("another vLLM"))
    assert len(recorded(core, file, StandInRequest(16, 5))) == 5


def test_an_error_leaves_the_step_as_it_is(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The error is logged once, nothing more is recorded, and the reader can tell."""
    scheduler = SeveralClients(MODEL)
    core, reader = core_of(scheduler, monkeypatch), StepRingReader(file, 1)
    assert recorded(core, file, StandInRequest(16, 5))
    reader.read()
    assert reader.written == [True]
    monkeypatch.setattr("headway.vllm_adapter.step_recorder.parts", None)
    assert recorded(core, file, StandInRequest(16, 5)) == []
    assert caplog.text.count("EngineCore records its steps no longer: TypeError") == 1
    assert (list(reader.read()), reader.written) == ([], [False])


@pytest.mark.parametrize("why", ["no statistics", "a pipeline", "no file"])
def test_steps_that_cannot_be_recorded_are_not(file: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """The engine works all the same."""
    scheduler = SeveralClients(MODEL)
    if why == "no statistics":
        scheduler.stats = False
    elif why == "a pipeline":
        scheduler.parallel_config = SimpleNamespace(pipeline_parallel_size=2)  # type: ignore[attr-defined]
    else:
        monkeypatch.setenv(VARIABLE, "/nowhere")
    assert recorded(core_of(scheduler, monkeypatch), file, StandInRequest(16, 5)) == []
    assert scheduler.steps
