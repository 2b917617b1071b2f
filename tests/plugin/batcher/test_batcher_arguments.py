"""What is refused of a batcher's arguments and of a request's terms, and how."""

from __future__ import annotations

import asyncio
import math
import re
from typing import Any

import pytest
from batch_functions import Recorder, outcomes
from virtual_time import on_virtual_time, settle

from headway import Batcher
from headway_policies import Degrade, Requeue


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_batch_size": 0}, "max_batch_size must be 1 to 65536, not 0"),
        ({"max_wait_ms": -1}, "max_wait_ms must be 0 to 60000, not -1"),
        ({"max_total_tokens": 0}, "max_total_tokens must be 1 to"),
        ({"priority_classes": 9}, "priority_classes must be 1 to 8, not 9"),
        ({"max_size": 31}, "31 requests are fewer than a batch of 32"),
        ({"max_batch_size": 2.5}, "max_batch_size must be a whole number, not 2.5"),
        ({"max_total_tokens": None}, "max_total_tokens must be a whole number, not None"),
        ({"max_wait_ms": "8"}, "max_wait_ms must be a number, not '8'"),
        ({"max_wait_ms": math.inf}, "max_wait_ms must be 0 to 60000, not inf"),
    ],
    ids=str,
)
def test_a_setting_out_of_range_is_refused_by_name(settings: dict[str, Any], message: str) -> None:
    """ValueError, one line."""
    with pytest.raises(ValueError, match=message):
        Batcher(Recorder(), **settings)


@on_virtual_time
async def test_an_item_whose_size_cannot_be_computed_is_refused_alone() -> None:
    """An error of ``count_tokens`` reaches the submitter of that item, before it is in any batch."""
    record = Recorder()
    async with Batcher(record, count_tokens=lambda item: 10 // item) as batcher:
        answers = await asyncio.gather(*map(batcher.submit, range(3)), return_exceptions=True)
    assert isinstance(answers[0], ZeroDivisionError)
    assert (answers[1:], record.batches) == ([2, 4], [[1, 2]])


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"priority": 1.0}, "priority must be a whole number, not 1.0; larger is more urgent"),
        ({"priority": True}, "priority must be a whole number, not True"),
        ({"timeout": "1"}, "timeout must be a number, not '1'"),
        ({"timeout": math.nan}, "timeout must be a number, not nan"),
        ({"timeout": 10**400}, "timeout must be a number, not 1000"),
        ({"tokens": 2.5}, "tokens must be a whole number, not 2.5"),
        ({"tokens": -1}, "tokens must be 0 to 9007199254740992, not -1"),
        ({"tokens": 10**400}, "tokens must be 0 to 9007199254740992, not 1000"),
        ({"tokens": 10**5000}, "tokens must be 0 to 9007199254740992, not this int"),
    ],
    ids=range(9),
)
@on_virtual_time
async def test_invalid_terms_are_refused_alone_and_leave_no_state(terms: dict[str, Any], message: str) -> None:
    """One line that names them, before the request is recorded: later requests are served, and drain ends."""
    async with Batcher(Recorder(), max_batch_size=2) as batcher:
        with pytest.raises(ValueError, match=re.escape(message)):
            await batcher.submit(1, **terms)
        assert await asyncio.gather(*(batcher.submit(item, item % 3) for item in range(6))) == [0, 2, 4, 6, 8, 10]
    assert outcomes(batcher) == {"completed": 6}
    assert batcher.stats()["total_queued"] == 0


@pytest.mark.parametrize("size", [math.inf, math.nan, None, 2.5, 10**400], ids=["inf", "nan", "None", "2.5", "huge"])
@on_virtual_time
async def test_a_size_that_is_none_is_refused_alone(size: Any) -> None:
    """Whatever ``count_tokens`` returns: one invalid value must not affect the records of other requests."""
    record = Recorder(takes_s=1.0)
    async with Batcher(record, max_batch_size=1, max_wait_ms=0, count_tokens=lambda item: item or size) as batcher:
        with pytest.raises(ValueError, match="tokens must be"):
            await batcher.submit(0, priority=2)
        assert await asyncio.gather(*(batcher.submit(1, priority) for priority in (0, 2, 2))) == [2, 2, 2]


@pytest.mark.parametrize("takes_numpy", [True, False], ids=["numpy", "bool"])
@on_virtual_time
async def test_whatever_is_an_index_is_a_whole_number(takes_numpy: bool) -> None:
    """Numbers of other libraries serve; truth does not."""
    numpy = pytest.importorskip("numpy")
    async with Batcher(Recorder()) as batcher:
        if takes_numpy:
            assert await batcher.submit(1, numpy.int64(2), numpy.float32(3.0), numpy.int32(4)) == 2
        else:
            with pytest.raises(ValueError, match="tokens must be a whole number"):
                await batcher.submit(1, tokens=True)


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"process_batch": 3}, "process_batch must be a function, not int"),
        ({"process_batch": None}, "process_batch must be a function, not NoneType"),
        ({"validate": "x"}, "validate must be a function, not str"),
        ({"validate": settle}, "validate must be a plain function"),
        ({"count_tokens": settle}, "count_tokens must be a plain function"),
    ],
    ids=["a number", "nothing", "a text", "an async validate", "an async count_tokens"],
)
def test_what_cannot_be_called_is_refused_at_once(functions: dict[str, Any], message: str) -> None:
    """And not by the first request."""
    with pytest.raises(TypeError, match=message):
        Batcher(**{"process_batch": Recorder(), **functions})


def test_a_second_event_loop_is_refused() -> None:
    """A batcher belongs to the loop of its first request; the error names what serves threads."""
    batcher = Batcher(Recorder(), max_wait_ms=0)
    assert asyncio.run(batcher.submit(1)) == 2
    with pytest.raises(RuntimeError, match="SyncBatcher"):
        asyncio.run(batcher.submit(2))


@pytest.mark.parametrize(
    ("effect", "error"),
    [(Requeue(1), "never does"), (Degrade(1, 8), "has none"), (object(), "unreachable")],
    ids=["requeue", "degrade", "unknown"],
)
@on_virtual_time
async def test_an_effect_that_cannot_follow_is_an_error(effect: object, error: str) -> None:
    """No effect of the desk is silently ignored: the error names the effect that this shell does not support."""
    async with Batcher(Recorder()) as batcher:
        with pytest.raises(AssertionError, match=error):
            batcher._carry_out([effect])  # type: ignore[list-item]  # one of them is no effect at all
