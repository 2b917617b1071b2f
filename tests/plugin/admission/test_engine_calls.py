"""The record of running engine calls: ids, sequences, and which of them give no output until their end."""

from __future__ import annotations

from typing import Any

import pytest
from small_presets import small_preset
from virtual_time import on_virtual_time

from headway.admission.engine_calls import MAX_ID_CHARS, Call, Calls
from headway.admission.gate import Gate
from headway.admission.permit import Permit
from headway.engine.port import Ended
from headway_policies import Usage


def entered(seats: int = 1) -> Permit:
    """A request that has its seats."""
    return Gate(small_preset(8)).enter(seats=seats)


def opened(calls: Calls, permit: Permit, request_id: str = "a", *, unstreamed: bool = False) -> Call:
    """One call of a request."""
    return calls.open(permit, request_id, permit.ticket.seats, unstreamed=unstreamed, ends_late=False)


@pytest.mark.parametrize("name", ["a", "a" * MAX_ID_CHARS, "chatcmpl-é"])
@on_virtual_time
async def test_an_id_is_the_clients_own_as_far_as_it_may_be(name: str) -> None:
    """Up to the bound, and of characters that a line of the log can bear."""
    assert opened(Calls(), entered(), name).id == name


HOSTILE = {
    "one too long": "a" * (MAX_ID_CHARS + 1),
    "long": "a" * 5000,
    "lines": "a\nforged: b",
    "a lone surrogate": "a\ud800",
    "long, and lines": "\n" * 5000,
}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
@on_virtual_time
async def test_an_id_that_nothing_can_bear_is_cut_and_still_its_own(name: str) -> None:
    """Short, printable, with the beginning of what was sent, and another one for another id."""
    calls = Calls()
    ids = [opened(calls, entered(), one).id for one in (name, name + "b")]
    assert all(len(one) <= MAX_ID_CHARS and one.isprintable() for one in ids)
    assert len(set(ids)) == 2
    kept = "".join(one for one in name[:50] if one.isprintable())
    assert all(one.startswith(kept) for one in ids)


@on_virtual_time
async def test_an_id_is_not_given_again_before_the_engine_has_forgotten_it() -> None:
    """Neither while its call is open nor while it is stopping; afterwards it is."""
    calls, permit = Calls(), entered(3)
    first = opened(calls, permit)
    assert opened(calls, permit).id != "a"
    calls.close(first, stopping=True)
    assert opened(calls, permit).id != "a"
    calls.stopped(first)
    assert opened(calls, permit).id == "a"


@on_virtual_time
async def test_only_what_shows_nothing_is_looked_after() -> None:
    """A stream reports its own progress."""
    calls = Calls()
    opened(calls, entered(), "stream")
    whole = opened(calls, entered(), "whole", unstreamed=True)
    assert calls.unstreamed() == [whole]


@on_virtual_time
async def test_a_sequence_ends_once() -> None:
    """A report on a call without remaining sequences is neither counted nor freed again."""
    calls, permit = Calls(), entered()
    call = opened(calls, permit)
    ended = Ended("a", prompt_tokens=2, output_tokens=3)
    assert calls.sequence_ended(ended) is call
    assert calls.sequence_ended(ended) is None
    usage: Any = permit.usage
    assert (usage.prompt_tokens, usage.output_tokens, permit.in_engine) == (2, 3, 0)


@on_virtual_time
async def test_a_report_that_comes_after_its_call_was_counted_is_no_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of a dead engine are counted by their last outputs; so many of them are known for a while, and no more."""
    monkeypatch.setattr("headway.admission.engine_calls._MOST_OVERDUE", 2)
    calls, names = Calls(), "abc"
    for name in names:
        call = opened(calls, entered(), name)
        calls.account(call, Usage(2, 3))
        calls.close(call, stopping=False, reported=False)
        calls.stopped(call)
    assert [calls.count(Ended(name, 2, 3)) for name in ("never there", *names)] == [False, False, True, True]
