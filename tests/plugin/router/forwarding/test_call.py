"""A call that reads a response: it can be stopped from outside at each moment, as in every other step."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import aiohttp
import pytest

from headway.router.forwarding.call import AbortedError, Call, InstanceLostError


def content() -> aiohttp.StreamReader:
    """That of a response on an open connection."""
    protocol = SimpleNamespace(connected=True, resume_reading=lambda **_: None)
    return aiohttp.StreamReader(protocol, 2**16, loop=asyncio.get_running_loop())  # type: ignore[arg-type]


async def test_a_call_reads_what_has_come_up_to_the_end() -> None:
    """All that is there at once, and nothing where there is no more."""
    call, response = Call(), content()
    response.feed_data(b"a")
    response.feed_data(b"b")
    assert await call.read(response) == b"ab"
    response.feed_eof()
    assert await call.read(response) == b""


@pytest.mark.parametrize("when", ["before", "while it waits", "as data has come"])
async def test_a_stopped_call_reads_no_more(when: str) -> None:
    """The call raises what it was stopped with, also again; where its instance was lost, it may go on with another."""
    call, response, why = Call(), content(), InstanceLostError("a", sent=True)
    if when == "before":
        call.stop(why)
    reading = asyncio.ensure_future(call.read(response))
    await asyncio.sleep(0)
    if when == "as data has come":
        response.feed_data(b"late")
    call.stop(why)
    for one in (reading, call.read(response)):
        with pytest.raises(InstanceLostError) as raised:
            await one
        assert raised.value is why
    call.again()
    other = content()
    other.feed_data(b"b")
    assert await call.read(other) == b"b"


async def test_what_a_stopped_call_holds_is_left_to_the_one_that_reads() -> None:
    """Between two steps it is given back at once; in the middle of one that ends with an error."""
    call, let_go = Call(), list[str]()
    call.let_go.append(lambda: let_go.append("gone"))
    reading = asyncio.ensure_future(call.read(content()))
    await asyncio.sleep(0)
    call.stop(AbortedError())
    with pytest.raises(AbortedError):
        await reading
    assert let_go == []


async def test_a_cancelled_call_can_be_read_no_more_but_by_another_one() -> None:
    """Nothing of it stays with the response."""
    response = content()
    reading = asyncio.ensure_future(Call().read(response))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    response.feed_data(b"a")
    assert await Call().read(response) == b"a"
