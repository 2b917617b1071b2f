"""The step policy on a scheduler that stands in for vLLM's."""

from __future__ import annotations

import logging
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from engine_family import FAMILY, drawn
from stand_in_scheduler import Output, StandInRequest, StandInScheduler

from headway.vllm_adapter.engine_core_hooks import get_limits, set_limits
from headway.vllm_adapter.step_shaper import StepShaper, shape_steps, unshaped_because
from headway_policies.step import StepPolicy, StepTerms
from headway_simulator import EngineModel

MODEL = FAMILY["two cores"]
TERMS = StepTerms("auto", "2.5x", {})


def shaped(model: EngineModel = MODEL, terms: StepTerms = TERMS, **config: Any) -> tuple[StandInScheduler, StepShaper]:
    """A scheduler under these terms, that has computed a few prompts alone as a warm-up does."""
    scheduler = StandInScheduler(model, **config)
    shaper = StepShaper(scheduler, StepPolicy(terms), scheduler.clock)
    shaper.install()
    for tokens in (64, 64, 256):
        scheduler.waiting.append(StandInRequest(tokens, 20))
        run(scheduler)
    scheduler.steps.clear()
    return scheduler, shaper


def run(scheduler: StandInScheduler, steps: int = 100_000) -> None:
    """Until nothing is left, or for so many steps."""
    while steps and (scheduler.running or scheduler.waiting):
        scheduler.step()
        steps -= 1


def beside(scheduler: StandInScheduler, *prompts: int, decoding: int = 8) -> list[StandInRequest]:
    """So many sequences decode when these prompts arrive together."""
    scheduler.waiting.extend(StandInRequest(16, 5000) for _ in range(decoding))
    run(scheduler, 40)
    scheduler.steps.clear()
    asked = [StandInRequest(tokens, 4) for tokens in prompts]
    scheduler.waiting.extend(asked)
    return asked


@pytest.mark.parametrize("name", FAMILY)
def test_long_prompts_leave_the_pace_of_those_that_decode(name: str) -> None:
    """Three prompts beside eight sequences, each longer than forty steps with one: no step takes over twice as long as
    without them, every sequence has a token in each, and the prompts get their part of the time.
    """
    scheduler, shaper = shaped(FAMILY[name])
    tokens = int(40 * FAMILY[name].step_s(1) / FAMILY[name].prefill_s)
    prompts = beside(scheduler, tokens, tokens, tokens)
    while any(prompt not in scheduler.first_s for prompt in prompts):
        scheduler.step()
    alone_s = FAMILY[name].step_s(11)
    assert max(took_s for took_s, _, _ in scheduler.steps) <= 2 * alone_s
    assert scheduler.skipped == 0
    assert shaper.policy.figures.prefill_share >= 0.24


def test_a_prompt_as_long_as_its_objective_leaves_the_pace_of_those_that_decode() -> None:
    """Ten seconds of prompt within sixteen: no share that lasts would have it in time, so no step is long for it."""
    model = replace(MODEL, prefill_s=0.0012)
    scheduler, _ = shaped(model, StepTerms("auto", "2.5x 5..250", {0: "7x 0.3..20"}))
    prompts = beside(scheduler, 8192)
    while prompts[0] not in scheduler.first_s:
        scheduler.step()
    assert max(took_s for took_s, _, _ in scheduler.steps) <= 2 * model.step_s(9)


@pytest.mark.parametrize("seed", range(12))
def test_on_any_engine_no_sequence_is_skipped_and_every_prompt_is_computed(seed: int) -> None:
    """Whatever arrives: those that decode have a token in each step, and all requests end."""
    random = Random(seed)
    scheduler, _ = shaped(drawn(seed))
    asked = 0
    for _ in range(120):
        for _ in range(random.choice((0, 0, 1, 3))):
            scheduler.waiting.append(StandInRequest(random.choice((1, 8, 60, 700, 3000)), random.randint(1, 60)))
            asked += 1
        run(scheduler, random.randint(1, 10))
    run(scheduler)
    assert scheduler.skipped == 0
    assert len(scheduler.first_s) == asked + 3


def test_a_share_is_kept_within_three_points() -> None:
    """Over all steps that had a plan."""
    scheduler, shaper = shaped(terms=StepTerms(0.4, None, {}))
    beside(scheduler, 2048, 2048)
    run(scheduler, 300)
    assert shaper.policy.figures.prefill_share == pytest.approx(0.4, abs=0.03)


def test_a_short_prompt_behind_a_long_one_is_computed_beside_it() -> None:
    """The short prompt does not wait for the end of the long one."""
    scheduler, _ = shaped()
    long, short = beside(scheduler, 2048, 32)
    run(scheduler, 300)
    assert scheduler.first_s[short] < scheduler.first_s[long]
    assert scheduler.skipped == 0


@pytest.mark.parametrize("seed", [0, 3])
def test_the_first_in_line_is_not_held_by_those_that_come_with_it(seed: int) -> None:
    """Prompts of many lengths at once, and more behind them. Short ones decode soon, behind longer ones in vLLM's list:
    what these leave of a step must not go to ever more prompts, each of which would have less of the next one.
    """
    share, random = 0.4, Random(seed)
    scheduler, _ = shaped(terms=StepTerms(share, None, {}))
    sizes = [80, 200, 400, 800, 1800, 2000, 2400, 4000]
    beside(scheduler, *random.choices(sizes, k=12))
    first_s: dict[StandInRequest, float] = {}
    for _ in range(600):
        if random.random() < 0.1:
            scheduler.waiting.append(StandInRequest(random.choice(sizes), random.choice((3, 2000))))
        scheduler.step()
        begun = [request for request in scheduler.running if request.is_prefill_chunk]
        for request in begun[:1]:
            first_s.setdefault(request, scheduler.now_s)
    assert len(first_s) > 4
    for request, at_s in first_s.items():
        within_s = 2 / share * request.prompt_tokens * MODEL.prefill_s + 2 * MODEL.step_s(100, 300)
        assert scheduler.first_s.get(request, scheduler.now_s) - at_s <= within_s


def test_where_nobody_decodes_vllm_has_its_own_budget() -> None:
    """Its own two values are in force, and stand afterwards."""
    scheduler, _ = shaped()
    scheduler.waiting.append(StandInRequest(2000, 1))
    scheduler.step()
    assert scheduler.steps[-1][2] == 2000
    beside(scheduler, 2048)
    scheduler.step()
    assert 0 < scheduler.steps[-1][2] < 200
    assert scheduler.max_num_scheduled_tokens == MODEL.step_tokens
    assert scheduler.scheduler_config.long_prefill_token_threshold == 0


def test_a_plan_stands_in_for_the_interval_of_prompts_that_vllm_was_given() -> None:
    """Under a share each step computes its part of the prompts; without a plan vLLM's own interval is in force."""
    scheduler, shaper = shaped(terms=StepTerms(0.4, None, {}))
    scheduler.local_prefill_interval = 4
    beside(scheduler, 2048)
    run(scheduler, 8)
    assert all(tokens > 0 for _, _, tokens in scheduler.steps)
    assert scheduler.local_prefill_interval == 4
    shaper.policy.terms = None
    scheduler.steps.clear()
    scheduler.max_num_scheduled_tokens = 64
    run(scheduler, 8)
    assert [tokens > 0 for _, _, tokens in scheduler.steps] == 2 * [False, False, False, True]


def test_steps_in_flight_are_told_apart() -> None:
    """With asynchronous scheduling a step is scheduled while the one before it runs. Each is learnt with the use of the
    KV cache that it was scheduled at.
    """
    scheduler: Any = StandInScheduler(MODEL)
    scheduler.kv_cache_manager = cache = SimpleNamespace(usage=0.0)
    shaper = StepShaper(scheduler, StepPolicy(None), scheduler.clock)
    learnt: list[tuple[int, int, float, float]] = []
    shaper.policy.learn = lambda *step, **_: learnt.append(step)  # type: ignore[assignment, misc]
    shaper.install()
    first, second = Output({StandInRequest(50, 1): 50}), Output({StandInRequest(30, 1): 30})
    for output, cache.usage in ((first, 0.25), (second, 0.5)):
        shaper._scheduled(output, scheduler.now_s, planned=False)
    scheduler.now_s = 1.0
    scheduler.update_from_output(first)
    scheduler.now_s = 1.5
    scheduler.update_from_output(second)
    assert learnt == [(0, 50, 1.0, 0.25), (0, 30, 0.5, 0.5)]


def test_a_sequence_that_lost_its_blocks_ends_the_plans_for_a_while() -> None:
    """A full KV cache is vLLM's own affair."""
    scheduler, shaper = shaped()
    beside(scheduler, 2048)
    shaper._scheduled(Output({}, {"one"}), 0.0, planned=False)
    scheduler.step()
    assert scheduler.steps[-1][2] > 1000


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"scheduler_config": SimpleNamespace()}, "this vLLM has no long_prefill_token_threshold"),
        ({"adaptive_long_prefill_threshold": True}, "long_prefill_token_threshold is adaptive"),
        ({"max_num_encoder_input_tokens": 4096}, "the model has an encoder"),
        ({"need_mamba_block_aligned_split": True}, "state space model"),
        ({"num_prefill_lookahead": 2}, "drafts"),
        ({"num_sampled_tokens_per_step": 0}, "samples no tokens"),
        ({"num_prefill_lookahead": None}, "of an unknown kind"),
        ({"connector": object()}, "elsewhere"),
        ({"parallel_config": SimpleNamespace(pipeline_parallel_size=2)}, "pipeline"),
        (
            {
                "scheduler_config": StandInScheduler(MODEL, prefill_schedule_interval=4).scheduler_config,
                "parallel_config": SimpleNamespace(data_parallel_size=2),
            },
            "a step of all ranks",
        ),
    ],
)
def test_an_engine_that_is_not_as_it_has_to_be_is_left_alone(
    change: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its methods are vLLM's own, and the log says why: as a warning where a share was set."""
    caplog.set_level(logging.INFO)
    scheduler = StandInScheduler(MODEL)
    assert unshaped_because(scheduler) is None
    vars(scheduler).update(change)
    core = SimpleNamespace(scheduler=scheduler)
    shape_steps(core, TERMS.plain())
    shape_steps(core, replace(TERMS, prefill_share=0.4).plain())
    assert "schedule" not in vars(scheduler)
    assert all(reason in one.getMessage() for one in caplog.records)
    assert [one.levelname for one in caplog.records] == ["INFO", "WARNING"]


@pytest.mark.parametrize("config", [{"enable_chunked_prefill": False}, {"long_prefill_token_threshold": 64}])
def test_what_the_operator_chose_stays(config: dict[str, Any]) -> None:
    """Whole prompts, or chunks of a size of their own."""
    assert unshaped_because(StandInScheduler(MODEL, **config)) is not None


def test_an_error_leaves_vllm_to_itself(caplog: pytest.LogCaptureFixture) -> None:
    """Requests of another shape, as a later version may have: the step goes on, and the policy is off for good."""
    caplog.set_level(logging.WARNING)
    scheduler, shaper = shaped()
    beside(scheduler, 2048)
    del scheduler.waiting[0].arrival_time
    scheduler.step()
    assert scheduler.steps[-1][2] > 1000
    assert shaper.policy.terms is None
    shaper.policy.terms = TERMS
    beside(scheduler, 2048)
    scheduler.step()
    assert scheduler.steps[-1][2] > 1000
    assert "the step policy is off, vLLM shapes its steps itself: AttributeError" in caplog.text


def test_the_servers_call_puts_terms_in_force_and_out() -> None:
    """By the call that sets the limit."""
    scheduler = StandInScheduler(MODEL)
    core = SimpleNamespace(scheduler=scheduler)
    set_limits(core, {"max_num_active_reqs": 4})
    assert get_limits(core) == {"max_num_active_reqs": 4}
    set_limits(core, {"step": None})
    assert "schedule" not in vars(scheduler)
    set_limits(core, {"step": TERMS.plain()})
    assert core.headway_step_shaper.policy.terms == TERMS
    set_limits(core, {"step": None})
    assert core.headway_step_shaper.policy.terms is None
    assert scheduler.max_num_active_reqs == 4


def test_the_patch_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms that come then have no effect."""
    monkeypatch.setenv("HEADWAY_PATCHES_OFF", "steps")
    scheduler = StandInScheduler(MODEL)
    set_limits(SimpleNamespace(scheduler=scheduler), {"step": TERMS.plain()})
    assert "schedule" not in vars(scheduler)
