"""Predictions of lengths and waits, and their reported error."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from headway_policies.prediction.estimators import (
    MIN_SAMPLES,
    LengthEstimate,
    WaitEstimate,
)
from headway_policies.request.ticket import DEFAULT_MAX_TOKENS, Ticket, Usage

CHAT = Ticket(1, "normal", 0.0, tenant="a", max_tokens=1000)


def ended(predictor: LengthEstimate, ticket: Ticket, *lengths: int) -> None:
    for tokens in lengths:
        predictor.ended(ticket, Usage(64, tokens * ticket.seats))


def test_a_guess_stays_within_what_was_asked_and_changes_nothing() -> None:
    """Whatever has ended before: nothing used, all that was asked for, or more."""
    for seed in range(20):
        random, lengths = Random(seed), LengthEstimate()
        for number in range(200):
            asked = random.choice((1, 16, 31, 500, 100_000, None))
            tenant = random.choice(("a", "b", f"tenant {number}"))
            ticket = Ticket(number, "normal", 0.0, tenant, random.choice((1, 4)), max_tokens=asked)
            before = lengths.accuracy()
            guess = lengths.output_tokens(ticket)
            assert 0 <= guess <= (200_000 if asked is None else asked)
            assert (lengths.output_tokens(ticket), lengths.accuracy()) == (guess, before)
            ended(lengths, ticket, random.choice((0, 1, 25, asked or 700, 200_000)))


@pytest.mark.parametrize(("max_tokens", "expected"), [(400, 400), (7, 7), (None, DEFAULT_MAX_TOKENS)])
def test_without_history_a_request_is_taken_at_its_word(max_tokens: int | None, expected: int) -> None:
    """Until enough have ended, the guess is what it asks for, or what is usual."""
    lengths, ticket = LengthEstimate(), replace(CHAT, max_tokens=max_tokens)
    assert lengths.output_tokens(ticket) == expected
    ended(lengths, ticket, *[3] * (MIN_SAMPLES - 1))
    assert lengths.output_tokens(ticket) == expected


def test_the_guess_is_the_mean_of_like_requests() -> None:
    """A tenant with a history of its own in a class is guessed from that."""
    lengths = LengthEstimate()
    ended(lengths, CHAT, *[10, 30] * 20)
    ended(lengths, replace(CHAT, tenant="b"), *[600] * 40)
    assert lengths.output_tokens(CHAT) == 20
    assert lengths.output_tokens(replace(CHAT, tenant="b")) == 600


def test_an_unknown_tenant_is_predicted_from_its_class_and_then_from_all() -> None:
    """An unknown tenant is like its class, an unknown class like all requests."""
    lengths = LengthEstimate()
    ended(lengths, CHAT, *[100] * 20)
    ended(lengths, replace(CHAT, class_name="batch", tenant="c"), *[300] * 20)
    assert lengths.output_tokens(replace(CHAT, tenant="new")) == 100
    assert lengths.output_tokens(replace(CHAT, class_name="new", tenant="new")) == 200


def test_a_tenant_that_uses_all_it_asks_for_is_expected_to_use_all() -> None:
    """Fixed lengths are guessed exactly, even at a max_tokens not seen before."""
    lengths = LengthEstimate()
    for asked in (64, 70, 80, 90) * 5:
        ended(lengths, replace(CHAT, max_tokens=asked), asked)
    assert lengths.output_tokens(replace(CHAT, max_tokens=127)) == 127


def test_a_small_max_tokens_does_not_make_other_answers_short() -> None:
    """Requests that ask for much less are another kind."""
    lengths = LengthEstimate()
    ended(lengths, CHAT, *[400] * 20)
    ended(lengths, replace(CHAT, max_tokens=1), *[1] * 500)
    assert lengths.output_tokens(CHAT) == 400


def test_the_guess_is_for_each_sequence() -> None:
    """Usage is summed over the sequences of a request, the guess is not."""
    lengths = LengthEstimate()
    ended(lengths, replace(CHAT, seats=4), *[50] * 20)
    assert lengths.output_tokens(CHAT) == 50


def test_old_lengths_are_forgotten() -> None:
    """Only the last 256 lengths of a kind count."""
    lengths = LengthEstimate()
    ended(lengths, CHAT, *[900] * 300, *[10] * 256)
    assert lengths.output_tokens(CHAT) == 10


def test_the_guess_is_never_above_what_is_asked_for() -> None:
    """Like requests that were allowed more do not raise the guess above this one's own max_tokens."""
    lengths = LengthEstimate()
    ended(lengths, CHAT, *[900] * 20)
    modest = replace(CHAT, max_tokens=600)
    assert lengths.output_tokens(modest) == 600


def test_memory_is_bounded_however_many_tenants_come() -> None:
    """A flood of tenants pushes out those that stay away, never those that come back now and then, nor their class."""
    lengths, away = LengthEstimate(), replace(CHAT, tenant="away")
    ended(lengths, CHAT, *[100] * 20)
    ended(lengths, away, *[100] * 20)
    for number in range(3000):
        ended(lengths, replace(CHAT, tenant=f"t{number}"), *[500] * 2)
        if number % 200 == 0:
            ended(lengths, CHAT, 100)
    assert len(lengths._histories) == 512
    assert lengths.output_tokens(CHAT) == 100
    assert lengths.output_tokens(away) > 490  # from its class: its own is gone


def test_no_prediction_exceeds_the_longest_answer_seen() -> None:
    """A claim of a thousand million tokens counts as what is usual, then as the longest answer there has been."""
    lengths, boaster = LengthEstimate(), replace(CHAT, max_tokens=10**9)
    assert lengths.output_tokens(boaster) == DEFAULT_MAX_TOKENS
    ended(lengths, replace(CHAT, max_tokens=3000), 2800)
    assert lengths.output_tokens(boaster) == 2800


def test_the_accuracy_of_lengths_is_that_of_what_was_guessed() -> None:
    """Perfect guesses have no error; guesses twice too high have a whole one."""
    lengths = LengthEstimate()
    chat = replace(CHAT, max_tokens=500)
    ended(lengths, chat, *[250] * 4)  # taken at their word: 500
    found = lengths.accuracy()
    assert (found.samples, found.error_ratio) == (4, 1.0)
    ended(lengths, chat, *[250] * 3000)
    found = lengths.accuracy()
    assert found.samples == 256
    assert found.error_ratio == pytest.approx(0, abs=1e-3)


def taught(residence_s: float, seats: int = 1, endings: int = 50) -> WaitEstimate:
    waits = WaitEstimate()
    for number in range(endings):
        waits.ended(seats, residence_s, float(number))
    return waits


def test_the_wait_is_by_littles_law() -> None:
    """Eight seats held for 4 s each come free two a second."""
    waits = taught(4.0)
    assert waits.wait_s(seats_ahead=10, free=0, limit=8) == pytest.approx(5.0)
    assert waits.wait_s(seats_ahead=10, free=2, limit=8) == pytest.approx(4.0)


def test_a_request_with_a_free_seat_does_not_wait() -> None:
    """With seats enough the wait is 0, and that needs no knowledge."""
    assert WaitEstimate().wait_s(seats_ahead=2, free=2, limit=8) == 0


def test_no_request_is_refused_for_lack_of_knowledge() -> None:
    """Until enough seats have been given up, and after hours of quiet, there is no guess."""
    assert taught(4.0, endings=MIN_SAMPLES - 1).wait_s(10, 0, 8) is None
    waits = taught(4.0)
    waits.ended(1, 4.0, 20_000.0)
    assert waits.wait_s(10, 0, 8) is None


def test_the_wait_follows_the_traffic() -> None:
    """After some hundred seats of another residence the old one is forgotten."""
    waits = taught(4.0, endings=2000)
    for number in range(300):
        waits.ended(1, 1.0, 2000.0 + number)
    assert waits.wait_s(8, 0, 8) == pytest.approx(1.0, rel=0.05)


def test_the_predicted_wait_comes_true_in_a_queue() -> None:
    """On 8 seats with exponential residence and a standing queue, predictions are right within 15 % on the mean."""
    random, waits, limit, behind = Random(5), WaitEstimate(), 8, 40
    now_s, ends = 0.0, sorted((random.expovariate(0.5), 0.0) for _ in range(8))
    queue: list[tuple[float, float | None]] = [(0.0, None)] * behind
    pairs = list[tuple[float, float]]()
    for _ in range(4000):
        end_s, began_s = ends.pop(0)
        now_s = end_s
        waits.ended(1, end_s - began_s, now_s)
        arrived_s, predicted_s = queue.pop(0)
        if predicted_s is not None:
            waits.waited(predicted_s, now_s - arrived_s)
            pairs.append((predicted_s, now_s - arrived_s))
        ends = sorted([*ends, (now_s + random.expovariate(0.5), now_s)])
        queue.append((now_s, waits.wait_s(behind, 0, limit)))
    accuracy = waits.accuracy()
    assert accuracy.samples == 256
    assert accuracy.error_ratio < 0.25
    predicted, waited = (sum(one) for one in zip(*pairs, strict=True))
    assert predicted == pytest.approx(waited, rel=0.15)


def test_the_first_token_is_guessed_from_the_prompt() -> None:
    """Delays that grow with the prompt are learnt as a line."""
    waits = WaitEstimate()
    for number in range(MIN_SAMPLES):
        assert waits.first_token_s("chat", 500) is None
        waits.learn_first_token("chat", 100 * number, 0.03 + 0.0003 * 100 * number)
    for number in range(300):
        waits.learn_first_token("chat", number % 9 * 100, 0.03 + 0.0003 * (number % 9 * 100))
    assert waits.first_token_s("chat", 500) == pytest.approx(0.18, rel=0.05)
    assert waits.first_token_s("chat", 2000) == pytest.approx(0.63, rel=0.05)


def test_first_tokens_that_come_far_earlier_correct_the_prediction_at_once() -> None:
    """After a hundred of three seconds, three of a tenth: nothing is predicted then, until enough have come."""
    waits = WaitEstimate()
    for _ in range(100):
        waits.learn_first_token("chat", 64, 3.0)
    for _ in range(2):
        waits.learn_first_token("chat", 64, 0.1)
    assert (waits.likely_first_token_s("chat", 64) or 0.0) > 2.5
    waits.learn_first_token("chat", 64, 0.1)
    assert waits.likely_first_token_s("chat", 64) is None
    for _ in range(20):
        waits.learn_first_token("chat", 64, 0.1)
    assert (waits.likely_first_token_s("chat", 64) or 0.0) < 0.6


def test_a_doubtful_first_token_is_expected_early() -> None:
    """The guess is lower by its mean error, so that a scatter costs few requests that would have made it."""
    waits, random = WaitEstimate(), Random(4)
    delays_s = [random.uniform(0.1, 0.5) for _ in range(2000)]
    for delay_s in delays_s:
        waits.learn_first_token("chat", 64, delay_s)
    guess_s = waits.first_token_s("chat", 64)
    assert guess_s == pytest.approx(0.2, abs=0.04)
    assert waits.first_token_s("chat", 0) is not None
