"""What the desk holds back for the pace, and what it does not."""

from __future__ import annotations

from math import ceil, sqrt
from typing import Any

import pytest
from small_presets import small_preset, terms
from watched_desk import dispatched

from headway_policies import Desk, Effect, Ending, Load, Preset, Reason, Reject, Ticket, Usage, WakeAt
from headway_policies.limits import LimitSettings
from headway_policies.queueing import shares
from headway_policies.queueing.fair_share import CREDIT_TICKETS

LIMIT = LimitSettings(policy="model", inter_token_slo_ms=50, stale_after_s=5)
STEP_S = 0.036


def paced(seats: int = 16, **more: Any) -> Preset:
    return small_preset(seats, limit=LIMIT.model_copy(update=more))


class Busy:
    """A desk whose engine has run a few sequences for a while, at its set point."""

    def __init__(self, preset: Preset) -> None:
        self.desk, self.now_s, self.made = Desk(preset), 0.0, 0
        for number in (1, 2, 3, 4):
            self.comes("normal")
            self.steps(12, STEP_S + 0.002 * number, first_tokens=1, prefill_tokens=25 + number)

    def comes(self, class_name: str = "normal", **more: Any) -> list[Effect]:
        self.made += 1
        sizes = {"prompt_tokens": 10, "max_tokens": 100} | more
        return self.desk.arrive(Ticket(self.made, class_name, self.now_s, **sizes), self.now_s)

    def steps(self, number: int, step_s: float, **more: Any) -> list[Effect]:
        effects = []
        for _ in range(number):
            self.now_s += step_s
            load = Load(4, 0, 0.1, inter_token_s=step_s, **{"first_tokens": 0, "prefill_tokens": 0} | more)
            effects += self.desk.observe(load, self.now_s)
        return effects


def behind(preset: Preset) -> Busy:
    """One whose last step took far longer than it may, with seats free."""
    busy = Busy(preset)
    busy.steps(1, 0.35)
    assert busy.desk.seats_taken < busy.desk.limit
    return busy


def test_a_request_waits_for_the_pace_though_seats_are_free() -> None:
    """The request goes as soon as the steps have made up for the slow one, and the reason says what it waits for."""
    busy = behind(paced())
    assert dispatched(busy.comes()) == []
    assert busy.desk.read(busy.now_s).limit_reason == "pacing"
    assert dispatched(busy.steps(2, 0.02)) == []
    assert dispatched(busy.steps(8, 0.02)) == [busy.made]
    assert busy.desk.read(busy.now_s).limit_reason != "pacing"


def test_a_short_prompt_does_not_wait_for_what_a_long_one_took() -> None:
    """On arrival, or from the queue in its order: behind a long prompt, which has to wait, it waits as well."""
    busy = Busy(paced())
    assert dispatched(busy.comes(prompt_tokens=500)) == [5]
    busy.steps(1, 0.5, first_tokens=1, prefill_tokens=500)
    busy.steps(12, STEP_S)  # they have made up for a part of it
    assert dispatched(busy.comes()) == [6]
    assert dispatched(busy.comes(prompt_tokens=400)) == []
    assert dispatched(busy.comes()) == []
    assert dispatched(busy.steps(60, 0.03, first_tokens=1)) == [7, 8]


@pytest.mark.parametrize("preset", [paced(pace_prompts=False), paced(shadow=True), paced(policy="fixed")])
def test_other_presets_pace_nothing(preset: Preset) -> None:
    """Without ``pace_prompts``, in the shadow mode, and under a policy that does not know what a prompt costs."""
    assert dispatched(behind(preset).comes()) == [5]


def test_a_batch_is_not_paced() -> None:
    """All its prompts are computed at once: that is what a batch is."""
    desk = Desk(small_preset(4, limit=LIMIT, batching={"strategy": "static"}))
    desk.observe(Load(4, 0, 0.1, inter_token_s=5.0), 0.0)
    sent = [dispatched(desk.arrive(Ticket(number, "normal", 0.0, prompt_tokens=900), 0.0)) for number in range(4)]
    assert sent == [[], [], [], [0, 1, 2, 3]]


def test_a_tenant_that_was_served_little_does_not_wait_for_the_pace() -> None:
    """Beside one that was served much more, as far as the pace has a margin for what is urgent."""
    fair = paced().ordering.model_copy(update={"inside": "fair"})
    for inside, gone in ((fair, 3), (paced().ordering, 0)):
        busy = Busy(paced().model_copy(update={"ordering": inside}))
        for tenant in ("quiet", *["loud"] * CREDIT_TICKETS):
            busy.comes(tenant=tenant)
            busy.desk.leave(busy.made, Ending.COMPLETED, busy.now_s, Usage(10, 100))
        busy.steps(1, 0.35)
        assert dispatched(busy.comes(tenant="loud")) == []
        assert sum(len(dispatched(busy.comes(tenant="quiet"))) for _ in range(3)) == gone
        assert dispatched(busy.comes(tenant="quiet", prompt_tokens=100_000)) == ([busy.made] if gone else [])
        assert dispatched(busy.comes(tenant="quiet")) == [], "what has to be made up for has a bound"


def test_what_is_urgent_goes_within_its_share_of_what_runs() -> None:
    """The most urgent class passes those that wait for the pace, until it has its share of the limit, or of what runs
    where that is more, among the classes that are there, and the square root of that.
    """
    busy = behind(paced(40))
    share_of = shares(busy.desk.preset.classes)
    share = share_of["realtime"] / (share_of["realtime"] + share_of["normal"])
    busy.comes("normal")
    assert dispatched(busy.comes("realtime")) == [busy.made]
    passed = 1
    while dispatched(busy.comes("realtime")):
        passed += 1
    seats = share * max(4 + passed, busy.desk.limit)
    assert passed == ceil(seats + sqrt(seats)) == 32
    assert dispatched(busy.comes("batch")) == []


def test_late_ones_are_not_refused_for_the_pace_while_what_is_less_urgent_waits() -> None:
    """Four are late when the pace lets the next prompt be computed, and seats are free: all four go before the batch
    request, one each time that the pace bears it.
    """
    classes = {
        "realtime": terms(3, queue_s=None, total_s=None),
        "normal": terms(2, queue_s=None, total_s=None, ttft_slo_s=1.0),
        "batch": terms(1, queue_s=None, total_s=None),
    }
    busy = Busy(small_preset(16, limit=LIMIT, classes=classes))
    busy.steps(5, 0.02)
    assert dispatched(busy.comes("normal", prompt_tokens=5000)) == [5]
    for name in ("batch", "normal", "normal", "normal", "normal"):
        assert dispatched(busy.comes(name, prompt_tokens=400)) == []
    effects = busy.steps(130, 0.03)
    assert busy.desk.seats_taken < busy.desk.limit
    for _ in range(60):
        effects += busy.steps(1, 0.02, first_tokens=1, prefill_tokens=400)
    assert not any(isinstance(one, Reject) for one in effects)
    assert sorted(dispatched(effects)[:4]) == [7, 8, 9, 10]
    assert dispatched(effects)[4:] == [6]


def test_one_that_may_not_wait_is_refused() -> None:
    """There is a seat, but its prompt may not be computed now."""
    (effect,) = (one for one in behind(paced()).comes(may_wait=False) if isinstance(one, Reject))
    assert effect.reason is Reason.NO_FREE_SEAT


def test_an_engine_that_falls_silent_holds_nothing_back() -> None:
    """The desk asks to be woken when the last report is too old, and sends what waits then."""
    busy = behind(paced())
    seen_s = busy.now_s
    due = [one.at_s for one in busy.comes() if isinstance(one, WakeAt)]
    assert min(due) <= seen_s + 5
    busy.now_s = seen_s + 5
    assert dispatched(busy.desk.tick(busy.now_s)) == [busy.made]


def test_the_last_one_to_leave_opens_it() -> None:
    """Whatever the pace was: nothing that runs could miss it."""
    busy = behind(paced())
    busy.comes()
    effects = [effect for number in range(1, 5) for effect in busy.desk.leave(number, Ending.COMPLETED, busy.now_s)]
    assert dispatched(effects) == [busy.made]


def test_after_a_switch_the_queue_is_paced_from_the_first_moment() -> None:
    """From four seats without a pace to more with one: what waited does not go all at once."""
    busy = Busy(small_preset(4))
    for _ in range(12):
        busy.comes(prompt_tokens=400)
    assert len(dispatched(busy.desk.switch(paced(), busy.now_s))) == 1
    assert busy.desk.seats_taken + 1 < busy.desk.limit


def test_all_prompts_of_a_request_count() -> None:
    """Eight sequences of 100 tokens are 800 tokens of prompts; until they are computed nothing else goes."""
    busy = Busy(paced())
    busy.steps(5, 0.02)
    assert dispatched(busy.comes(prompt_tokens=10, seats=2)) == [5]
    assert dispatched(busy.comes(prompt_tokens=100, seats=8)) == [6]
    assert dispatched(busy.steps(3, 0.02, first_tokens=2)) == []


@pytest.mark.parametrize("strategy", ["static", "dynamic"])
def test_the_limit_of_a_batch_leaves_room_for_all_its_prompts(strategy: str) -> None:
    """Where nothing is paced the limit itself keeps the objective: a switch to a batch makes another limit."""
    desk = Busy(paced()).desk
    assert desk._capacity.pacer is not None
    desk.switch(small_preset(16, limit=LIMIT, batching={"strategy": strategy}), 10.0)
    assert desk._capacity.pacer is None
    assert not desk._capacity._limit._settings.paces  # type: ignore[attr-defined]  # a governor


def test_an_engine_that_was_idle_begins_anew() -> None:
    """However far behind it was before: two short prompts may go together."""
    busy = behind(paced())
    for number in range(1, 5):
        busy.desk.leave(number, Ending.COMPLETED, busy.now_s)
    assert [dispatched(busy.comes()) for _ in range(2)] == [[5], [6]]


def test_a_switch_ends_and_begins_the_pacing() -> None:
    """A request that waits for the pace goes under a preset without one; the state is kept where the limit is."""
    busy = behind(paced())
    busy.comes()
    assert dispatched(busy.desk.switch(paced().model_copy(update={"name": "twin"}), busy.now_s)) == []
    assert dispatched(busy.desk.switch(small_preset(16, name="plain"), busy.now_s)) == [busy.made]


def test_an_aborted_prompt_is_no_debt() -> None:
    """A long prompt that is cancelled before its first token: the next one may go at once."""
    busy = Busy(paced())
    busy.steps(5, 0.02)
    assert dispatched(busy.comes(prompt_tokens=5000)) == [busy.made]
    long = busy.made
    assert dispatched(busy.comes()) == []
    assert dispatched(busy.desk.leave(long, Ending.CANCELLED, busy.now_s)) == [busy.made]
