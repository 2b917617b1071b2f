"""What a diagnosis says first, with which numbers, and causes and remedies that bind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from diagnosed_facts import FULL, LATE, NORMAL, SLOW, WELL

from headway_policies.diagnosis import NOT_FAILED, Bottleneck, ClassFacts, Severity, diagnose, restated, words
from headway_policies.diagnosis.failures import becomes
from headway_policies.request import REFUSED as REFUSALS
from headway_policies.request import Outcome, Reason

# ---------------------------------------------------------------------- who is hit

REFUSED = ClassFacts(
    "realtime", ttft_slo_s=1.0, error_share=1.0, ended=131, refused_share=1.0, causes={"objective out of reach": 131.0},
    reserved_seats=3.0,
)  # fmt: skip
ALSO_REFUSED = replace(REFUSED, name="normal", ended=157, reserved_seats=0.0)
LATE_BATCH = ClassFacts("batch", ttft_p95_s=70.0, ttft_slo_s=60.0, error_share=0.0, ended=12, refused_share=0.0)
NIGHT = replace(
    WELL, seats_taken=29, queued=4, reserved_seats=3.0, error_share=0.96, refused_share=0.96, ended=300,
    classes=(LATE_BATCH, REFUSED, ALSO_REFUSED),
)  # fmt: skip


def test_a_class_that_is_refused_ranks_above_one_that_is_late() -> None:
    """Each class is named with its numbers, refused ones first; that seats are kept for it is not the cause."""
    found = diagnose(NIGHT)
    assert found.symptoms == (
        "All 131 requests of class realtime are refused; main cause: objective out of reach.",
        "All 157 requests of class normal are refused; main cause: objective out of reach.",
        "First tokens of class batch come too late: 1 min 10 s (p95), its objective is 1 min.",
    )
    assert (found.severity, found.bottleneck) == (Severity.OVERLOADED, Bottleneck.ENGINE_SPEED)
    assert "seats are kept free for realtime, whose first tokens would come too late" in found.statement
    assert not any("reserved_seats" in remedy.action for remedy in found.remedies)


def test_seats_that_are_kept_free_but_taken_by_others_are_no_free_seats() -> None:
    """After a fall of the limit all seats are taken, whatever is kept for whom."""
    assert diagnose(replace(NIGHT, seats_taken=31.5)).bottleneck is Bottleneck.SEATS


def test_requests_that_timed_out_do_not_say_that_the_engine_is_too_slow() -> None:
    """They waited out the restart of an engine, for example."""
    timed_out = replace(REFUSED, causes={"timed out waiting": 131.0})
    assert diagnose(replace(NIGHT, classes=(timed_out,))).bottleneck is not Bottleneck.ENGINE_SPEED


def test_a_class_with_a_few_refusals_is_named_after_those_with_many() -> None:
    """Among those with many the most urgent is first, as they are given."""
    few = replace(REFUSED, error_share=0.02, refused_share=0.02, ended=100)
    found = diagnose(replace(NIGHT, classes=(few, ALSO_REFUSED, LATE_BATCH)))
    assert [text.split(" of class ")[1].split()[0] for text in found.symptoms] == ["normal", "realtime", "batch"]


def test_a_small_class_that_is_refused_is_an_overload() -> None:
    """Its few requests do not vanish among those of the others."""
    few = replace(REFUSED, ended=5, causes={"queue full": 4.0}, error_share=0.8, refused_share=0.8)
    found = diagnose(replace(WELL, error_share=0.004, refused_share=0.004, ended=1000, classes=(NORMAL, few)))
    assert found.severity is Severity.OVERLOADED
    assert found.symptoms == ("4 of 5 requests of class realtime (80 %) are refused; main cause: queue full.",)


def test_a_share_has_its_numbers() -> None:
    """100 % of one request is not 100 % of a hundred; a share without numbers stands alone."""
    for ended, said in ((1, "1 of 1 requests (100 %)"), (5, "All 5 requests"), (None, "100 % of requests")):
        found = diagnose(replace(WELL, error_share=1.0, ended=ended, causes={"failed": 1.0}))
        assert found.symptoms == (f"{said} end without an answer; main cause: failed.",)
    found = diagnose(replace(WELL, error_share=0.2, ended=15, causes={"failed": 1.0}))
    assert found.symptoms == ("3 of 15 requests (20 %) end without an answer; main cause: failed.",)


TIMED_OUT = "time out in the queue"


@pytest.mark.parametrize(
    ("causes", "said"),
    [
        ({"timed out waiting": 131.0}, TIMED_OUT),
        ({"queue full": 131.0, "expected wait too long": 2.0}, "are refused"),
        ({"queue full": 31.0, "timed out waiting": 100.0, "invalid request": 9.0}, f"{TIMED_OUT} or are refused"),
        ({"answer stalled": 131.0}, "run out of time while they run"),
        ({"failed": 131.0, "engine lost": 1.0}, "fail in the engine"),
        ({"failed": 131.0, "other: new": 1.0}, "end without an answer"),
        ({"failed": 1.0, "queue full": 1.0, "answer stalled": 1.0}, "end without an answer"),
    ],
)
def test_the_requests_of_a_class_end_in_the_words_of_their_causes(causes: dict[str, float], said: str) -> None:
    """A request that has waited out its time was not refused, and one that failed neither."""
    found = diagnose(replace(NIGHT, classes=(replace(REFUSED, causes=causes),)))
    assert found.symptoms[0].removesuffix(".").split("; ")[0] == f"All 131 requests of class realtime {said}"


@pytest.mark.parametrize("outcome", sorted({*Outcome} - {*NOT_FAILED, Outcome.REJECTED_INVALID}))
def test_every_failure_has_its_words(outcome: Outcome) -> None:
    """By the reason that it is counted by, where it has one."""
    reasons = [str(reason) for reason in Reason if REFUSALS[reason] is outcome]
    assert all("answer" not in becomes({words(name): 1.0}) for name in reasons or [str(outcome)])


def test_no_reason_says_that_a_request_waited_that_did_not() -> None:
    """A request is refused at once as well where its objective is out of reach."""
    assert words(Reason.OBJECTIVE_UNREACHABLE) == "objective out of reach"


# ---------------------------------------------------------------------- numbers


def test_the_statement_has_whole_numbers_of_now() -> None:
    """Means decide; what is said is what a tile shows."""
    pressed = replace(FULL, seats_taken=31.4, limit=31.9, queued=50.7, seats_now=33, limit_now=32, queued_now=7)
    assert diagnose(pressed).statement == (
        "Limited by the seats of this preset: 33 of 32 seats taken, 7 waiting, the oldest for 3.2 s."
    )
    assert "9 of 32 seats taken" in diagnose(replace(WELL, seats_taken=8.7)).statement
    later = restated(diagnose(pressed), replace(pressed, seats_now=30, queued_now=0))
    assert later.statement == "Limited by the seats of this preset: 30 of 32 seats taken."
    assert later.symptoms == diagnose(pressed).symptoms


def test_no_verdict_of_means_stands_beside_a_load_that_belies_it() -> None:
    """Neither at the start of a burst nor after its end; until the means have followed."""
    burst = {"seats_now": 32, "limit_now": 32, "queued_now": 9}
    for calm in (replace(WELL, seats_taken=0.0), replace(WELL, seats_taken=8.7)):
        later = restated(diagnose(calm), replace(calm, **burst))
        assert later.statement.startswith("At capacity, without delay: 32 of 32 seats taken, 9 waiting")
    over = replace(FULL, seats_taken=31.4, limit=31.9, queued=50.7, seats_now=1, limit_now=32, queued_now=0)
    assert restated(diagnose(FULL), over).statement.startswith(
        "Limited by the seats of this preset: 31 of 32 seats taken on the mean of half a minute"
    )


def test_no_statement_says_that_seats_are_free_beside_seats_that_are_not() -> None:
    """Where all are taken at this moment, the mean is said, and that it is one."""
    reserved = replace(WELL, seats_taken=28, queued=4, reserved_seats=4, limit_now=32, queued_now=4)
    assert diagnose(replace(reserved, seats_now=29)).statement == (
        "Requests wait although seats are free: 29 of 32 seats taken, 4 waiting. 4 are reserved for urgent classes."
    )
    assert diagnose(replace(reserved, seats_now=32)).statement == (
        "Requests wait although seats are free: 28 of 32 seats taken on the mean of half a minute, 4 waiting. "
        "4 are reserved for urgent classes."
    )


@pytest.mark.parametrize(("ttft_s", "said"), [(2.04, "just over 2 s"), (2.06, "2.1 s")])
def test_what_is_late_is_not_said_in_the_words_of_its_objective(ttft_s: float, said: str) -> None:
    """ "1 s, its objective is 1 s" says nothing."""
    found = diagnose(replace(WELL, classes=(replace(NORMAL, ttft_p95_s=ttft_s),)))
    assert found.symptoms == (f"First tokens of class normal come too late: {said} (p95), its objective is 2 s.",)


# ---------------------------------------------------------------------- causes that bind


@pytest.mark.parametrize(
    ("machine", "own", "bottleneck"),
    [
        (1.0, 0.5, Bottleneck.HOST),
        (0.95, 0.74, Bottleneck.HOST),
        (0.94, 0.5, Bottleneck.LONG_STEPS),
        (1.0, 0.85, Bottleneck.LONG_STEPS),
        (1.0, 0.03, Bottleneck.LONG_STEPS),
        (None, None, Bottleneck.LONG_STEPS),
    ],
)
def test_a_machine_that_is_busy_with_other_work_is_named(
    machine: float | None, own: float | None, bottleneck: Bottleneck
) -> None:
    """Only where it is full, and much of that is not this server's; fewer seats would not help."""
    found = diagnose(replace(WELL, classes=SLOW, seats_taken=8.6, machine_busy=machine, own_busy=own))
    assert found.bottleneck is bottleneck
    if bottleneck is Bottleneck.HOST:
        assert not any("seats" in remedy.action for remedy in found.remedies)
        assert "other work" in found.statement.lower()
    assert diagnose(replace(FULL, machine_busy=1.0, own_busy=0.5)).bottleneck is Bottleneck.HOST
    assert diagnose(replace(WELL, machine_busy=1.0, own_busy=0.5)).severity is Severity.OK


@pytest.mark.parametrize(
    ("mean", "now", "said"),
    [
        (8.6, None, "Too many requests run at once for their objective: 9 of 32 seats taken, no request waits."),
        (8.6, 0, "Too many requests run at once for their objective: 9 of 32 seats taken on the mean of half a minute"),
        (1.2, 1, "Tokens come more slowly than their objective allows, although few requests run at once: 1 of 32"),
    ],
)
def test_slow_tokens_are_blamed_on_requests_only_where_many_ran(mean: float, now: int | None, said: str) -> None:
    """By the mean, where those that ran have ended: "too many, 0 of 32 seats taken" contradicts itself."""
    facts = replace(WELL, classes=SLOW, seats_taken=mean, seats_now=now, limit_now=None if now is None else 32)
    assert diagnose(facts).statement.startswith(said)


@pytest.mark.parametrize(
    ("more", "bottleneck"),
    [
        ({"doubling_gain": 0.6}, Bottleneck.SEATS),
        ({"doubling_gain": 0.6, "ceiling": 32}, Bottleneck.CEILING),
        ({"doubling_gain": 0.6, "capped": True}, Bottleneck.CAPPED_SEATS),
        ({"doubling_gain": 0.1}, Bottleneck.HOST),
        ({"doubling_gain": None}, Bottleneck.HOST),
        ({"doubling_gain": 0.6, "limit_reason": "slo"}, Bottleneck.HOST),
        ({"doubling_gain": 0.6, "classes": SLOW}, Bottleneck.HOST),
        ({"doubling_gain": 0.6, "seats_taken": 8}, Bottleneck.HOST),
    ],
)
def test_on_a_busy_machine_seats_bind_where_more_of_them_would_serve_more(
    more: dict[str, Any], bottleneck: Bottleneck
) -> None:
    """The running requests keep their objectives there, and the waiting ones lack a seat. Where more seats would give
    no more tokens, or the objectives are missed, the processors are what is short."""
    found = diagnose(replace(FULL, machine_busy=1.0, own_busy=0.5, **more))
    assert found.bottleneck is bottleneck
    assert any("what else runs on the machine" in remedy.action for remedy in found.remedies)


def test_fewer_seats_are_fewer_than_run() -> None:
    """A limit that nothing reaches changes nothing."""
    slow = replace(WELL, classes=SLOW, adaptive=False)
    actions = [one.action for one in diagnose(replace(slow, seats_taken=8.6)).remedies]
    assert "fewer seats: 4" in actions
    assert not any("fewer seats" in one.action for one in diagnose(replace(slow, seats_taken=1.4)).remedies)


def test_longer_queues_help_only_where_requests_are_refused() -> None:
    """A burst that waits for seats needs seats."""
    burst = replace(WELL, seats_taken=10, queued=8, used_while_waiting=1.0)
    waits, refuses = diagnose(burst), diagnose(replace(burst, error_share=0.2, refused_share=0.2))
    assert waits.bottleneck is refuses.bottleneck is Bottleneck.BURSTS
    assert not any("longer queues" in one.action for one in waits.remedies)
    assert any("more seats: 64" in one.action for one in waits.remedies)
    assert any("longer queues" in one.action for one in refuses.remedies)


def test_short_waits_are_no_cause_of_late_first_tokens() -> None:
    """Seats that are all taken for a moment explain a wait of a moment."""
    burst = replace(WELL, seats_taken=10, queued=0.3, used_while_waiting=1.0, classes=LATE)
    assert diagnose(replace(burst, longest_wait_s=0.4)).bottleneck is Bottleneck.FIRST_TOKENS
    assert diagnose(replace(burst, longest_wait_s=30.0)).bottleneck is Bottleneck.BURSTS
