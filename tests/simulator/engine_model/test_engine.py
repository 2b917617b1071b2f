"""The engine model against hand-made sums, and many steps at once against one by one."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
from played_engine import ends, played

from headway_simulator.engine_model.engine import Engine, EngineModel, Sequence

UNIT = EngineModel(base_s=1.0, seat_s=0.0, prefill_s=0.0)
_FOREVER = 10**9


def test_one_request_alone_takes_its_prompt_and_one_step_a_token() -> None:
    """The sum of the model: a prompt step that yields the first token, then one step for each further token."""
    model = EngineModel(base_s=0.029, seat_s=0.00106, prefill_s=0.0007)
    reports = played(Engine(model), [(5.0, Sequence(1, prompt_tokens=100, output_tokens=11))])
    first_s = next(now_s for now_s, steps in reports if steps.first)
    assert first_s == pytest.approx(5.0 + 0.029 + 100 * 0.0007)
    assert ends(reports)[1] == pytest.approx(first_s + 10 * (0.029 + 0.00106))


def test_a_step_costs_by_the_sequences_that_decode_and_the_prompt_tokens_in_it() -> None:
    """Four equal sequences: one common prompt step, then steps of four."""
    model = EngineModel(base_s=0.01, seat_s=0.001, prefill_s=0.0001)
    reports = played(Engine(model), [(0.0, Sequence(place, 50, 6)) for place in range(4)])
    assert ends(reports)[3] == pytest.approx((0.01 + 200 * 0.0001) + 5 * (0.01 + 4 * 0.001))


def test_contexts_cost_time_by_the_part_of_the_kv_cache_that_they_fill() -> None:
    """A prompt and its answer fill half of the cache from the first step to the last: half of the cost in each."""
    model = EngineModel(base_s=0.01, seat_s=0.0, prefill_s=0.0, kv_tokens=64, context_s=0.02)
    assert ends(played(Engine(model), [(0.0, Sequence(1, 17, 15))]))[1] == pytest.approx(15 * (0.01 + 0.01))


def test_a_sequence_of_one_adapter_too_many_is_passed_over() -> None:
    """As in vLLM: by those of the adapter that runs and of the model itself, until no sequence of that adapter runs."""
    engine = Engine(replace(UNIT, most_adapters=1))
    adapters = {1: "a", 2: "b", 3: "", 4: "a", 5: "b"}
    sent = [(0.1 * number, Sequence(number, 1, 4, adapter=adapter)) for number, adapter in adapters.items()]
    sent.append((3.5, Sequence(6, 1, 4, adapter="a")))
    found = ends(played(engine, sent))
    assert sorted(found, key=found.__getitem__) == [1, 3, 4, 6, 2, 5]
    assert (engine.waiting, len(engine.running)) == (0, 0)


@pytest.mark.parametrize("most_steps", [1, 1000])
def test_contexts_that_grow_make_steps_longer(most_steps: int) -> None:
    """A whole cache in the end: the mean cost is that of the mean context, with steps one by one or many at once."""
    model = EngineModel(base_s=0.01, seat_s=0.0, prefill_s=0.0, kv_tokens=1600, context_s=0.02)
    found = ends(played(Engine(model), [(0.0, Sequence(1, 1, 1599))], most_steps))[1]
    assert found == pytest.approx(1599 * (0.01 + 0.01), rel=0.02)


def test_an_answer_of_one_token_ends_with_its_prompt() -> None:
    """First token and end are the same instant."""
    reports = played(Engine(UNIT), [(0.0, Sequence(1, 10, 1))])
    (now_s, steps) = reports[0]
    assert (now_s, [one.id for one in steps.first], [one.id for one in steps.ended]) == (1.0, [1], [1])


@pytest.mark.parametrize(("prompt_tokens", "steps"), [(100, 1), (101, 2), (350, 4)])
def test_a_long_prompt_is_computed_in_chunks_of_the_budget(prompt_tokens: int, steps: int) -> None:
    """As many steps as the budget goes into the prompt."""
    model = EngineModel(base_s=1.0, seat_s=0.0, prefill_s=0.0, step_tokens=100)
    reports = played(Engine(model), [(0.0, Sequence(1, prompt_tokens, 1))])
    assert ends(reports) == {1: float(steps)}


def test_decoding_goes_on_beside_a_long_prompt() -> None:
    """A sequence that decodes makes its token in every step, whatever prompts are computed in it."""
    model = EngineModel(base_s=1.0, seat_s=0.0, prefill_s=0.0, step_tokens=101)
    reports = played(Engine(model), [(0.0, Sequence(1, 1, 5)), (0.5, Sequence(2, 400, 1))])
    assert ends(reports) == {1: 5.0, 2: 5.0}


def test_no_more_sequences_run_than_the_engine_allows() -> None:
    """The third waits for the end of the first."""
    model = EngineModel(base_s=1.0, seat_s=0.0, prefill_s=0.0, max_num_seqs=2)
    reports = played(Engine(model), [(0.0, Sequence(place, 1, 3)) for place in range(3)])
    assert ends(reports) == {0: 3.0, 1: 3.0, 2: 6.0}
    assert max(steps.running for _, steps in reports) == 2


def test_a_padded_batch_goes_on_at_full_width_until_its_last() -> None:
    """An ended sequence keeps its place: steps of two to the end."""
    sequences = [(0.0, Sequence(1, 1, 2)), (0.0, Sequence(2, 1, 5))]
    model = EngineModel(base_s=0.0, seat_s=1.0, prefill_s=0.0, padded=True)
    assert ends(played(Engine(model), sequences))[2] == pytest.approx(4 * 2.0)


def test_without_blocks_the_last_one_in_is_computed_again_later() -> None:
    """Two that fit at first and not in the end: the younger loses its place, keeps its tokens, and ends in full."""
    model = EngineModel(base_s=1.0, seat_s=0.0, prefill_s=0.0, kv_tokens=64, block_tokens=16)
    reports = played(Engine(model), [(0.0, Sequence(1, 16, 30)), (0.0, Sequence(2, 16, 30))])
    assert sum(steps.preemptions for _, steps in reports) == 1
    assert ends(reports)[1] == 30.0
    assert [one.id for _, steps in reports for one in steps.first] == [1, 2]
    assert all(one.made_tokens == 30 for _, steps in reports for one in steps.ended)
    # 17 tokens made when the blocks ran out; once the first has ended: one step to compute it again, 12 for the rest.
    assert ends(reports)[2] == 30.0 + 1 + 12


def test_under_the_priority_order_the_least_urgent_gives_way_and_the_most_urgent_goes_first() -> None:
    """A smaller number is more urgent, as in vLLM."""
    model = EngineModel(base_s=1.0, seat_s=0.0, prefill_s=0.0, kv_tokens=64, block_tokens=16, order="priority")
    reports = played(Engine(model), [(0.0, Sequence(1, 16, 30, priority=5)), (0.0, Sequence(2, 16, 30, priority=1))])
    assert ends(reports)[2] == 30.0
    one_seat = EngineModel(base_s=1.0, seat_s=0.0, prefill_s=0.0, max_num_seqs=1, order="priority")
    waiting = [(0.0, Sequence(1, 1, 3)), (0.5, Sequence(2, 1, 3, priority=9)), (1.5, Sequence(3, 1, 3, priority=2))]
    assert ends(played(Engine(one_seat), waiting)) == {1: 3.0, 3: 6.0, 2: 9.0}


def test_an_aborted_sequence_is_gone_at_the_end_of_the_step_and_gives_everything_back() -> None:
    """Running, computing its prompt or waiting: reported once, and no block is lost."""
    model = EngineModel(base_s=1.0, seat_s=0.0, prefill_s=0.0, max_num_seqs=2, step_tokens=100)
    engine = Engine(model)
    sequences = [Sequence(1, 16, 30), Sequence(2, 500, 30), Sequence(3, 16, 30)]
    for sequence in sequences:
        engine.submit(sequence)
    engine.begin(0.0)
    engine.finish(math.inf, 1)
    engine.begin(1.0)
    for sequence in sequences:
        engine.abort(sequence)
        engine.abort(sequence)
    steps = engine.finish(math.inf, 1)
    engine.begin(2.0)
    assert [one.id for one in steps.dropped] == [1, 2, 3]
    assert (engine.free_blocks, engine.waiting, engine.ends_s) == (engine.blocks, 0, math.inf)
    assert sequences[0].made_tokens == 2


def test_what_is_larger_than_the_whole_kv_space_is_known_beforehand() -> None:
    """The last token of an answer needs no room."""
    engine = Engine(EngineModel(kv_tokens=64, block_tokens=16))
    assert engine.could_hold(32, 33)
    assert not engine.could_hold(32, 34)


@pytest.mark.parametrize("order", ["fcfs", "priority"])
@pytest.mark.parametrize("most_steps", [7, _FOREVER])
@pytest.mark.parametrize("seed", range(8))
def test_many_steps_at_once_are_exactly_the_same_as_one_by_one(seed: int, most_steps: int, order: str) -> None:
    """Every first token and every end at the very same float, through chunks, preemptions and idle times."""
    assert _history(seed, order, 1) == _history(seed, order, most_steps)


def test_the_histories_compared_do_preempt_and_do_leap() -> None:
    """Else the comparison above would prove nothing."""
    model, arrivals = _random(0, "fcfs")
    reports = played(Engine(model), arrivals, _FOREVER)
    assert sum(steps.preemptions for _, steps in reports) > 20
    assert max(steps.count for _, steps in reports) > 5


def _history(seed: int, order: str, most_steps: int) -> list[tuple[float, str, int]]:
    model, arrivals = _random(seed, order)
    engine = Engine(model)
    log = []
    for now_s, steps in played(engine, arrivals, most_steps):
        log += [(now_s, "first", one.id) for one in steps.first] + [(now_s, "end", one.id) for one in steps.ended]
        assert all(one.made_tokens == one.output_tokens for one in steps.ended)
    assert engine.free_blocks == engine.blocks
    assert len(log) == 2 * len(arrivals)
    return log


def _random(seed: int, order: str) -> tuple[EngineModel, list[tuple[float, Sequence]]]:
    random, at_s, arrivals = Random(seed), 0.0, []
    for place in range(150):
        at_s += random.expovariate(5.0)
        lengths = random.randint(1, 150), random.randint(1, 120)
        arrivals.append((at_s, Sequence(place, *lengths, priority=random.randint(0, 2))))
    return replace(EngineModel(kv_tokens=2000, step_tokens=100), order=order), arrivals
