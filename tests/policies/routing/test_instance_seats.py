"""The seats of an instance: found by what it says and by what waits there, within its bounds in every history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headway_policies.routing import InstanceSeats, SeatReading

READINGS = st.builds(
    SeatReading,
    running=st.integers(0, 300),
    waiting=st.integers(0, 300),
    limit=st.one_of(st.none(), st.integers(0, 300)),
    reach=st.one_of(st.none(), st.integers(0, 300)),
)


class Engine:
    """An instance that runs ``room`` sequences at once; one with Headway has a limit that grows while requests wait."""

    def __init__(self, room: int, limit: int | None = None) -> None:
        self.room, self.limit = room, limit

    def reading(self, sent: int) -> SeatReading:
        """What it says while so many sequences of a router are there."""
        open_seats = self.room if self.limit is None else min(self.limit, self.room)
        running = min(sent, open_seats)
        said = SeatReading(running, sent - running, self.limit, None if self.limit is None else self.room)
        if self.limit is not None and said.waiting:
            self.limit = min(self.room, max(self.limit + 1, self.limit + self.limit // 4))
        return said


def played(engine: Engine, usual: int, readings: int = 40) -> list[int]:
    """The seats after each reading of an instance that is always sent as many sequences as it may be."""
    seats, found = InstanceSeats(usual), list[int]()
    for _ in range(readings):
        seats.read(engine.reading(seats.seats), seats.seats)
        found.append(seats.seats)
    return found


def test_a_limit_that_follows_the_engine_grows_through_a_router() -> None:
    """From 32 to all that the engine runs, within some readings: what waits there makes the limit grow."""
    found = played(Engine(256, limit=32), 64)
    assert found[0] > 32
    assert found[20:] == [256] * 20, found


def test_at_the_end_of_a_limit_one_waits_there_and_no_more() -> None:
    """The limit has come to what the instance bears: the room for more shrinks to one."""
    engine = Engine(48, limit=32)
    found = played(engine, 64)
    engine.limit, engine.room = 40, 64
    seats = InstanceSeats(64)
    for _ in range(20):
        seats.read(SeatReading(40, max(0, seats.seats - 40), 40, 64), seats.seats)
    assert (found[-1], seats.seats, seats.most) == (48, 41, 64)


def test_a_fixed_limit_is_kept_to_the_seat() -> None:
    """Where nothing more can come of it nothing waits in the instance."""
    seats = InstanceSeats(256)
    for limit in (8, 8, 3, 0, 8):
        seats.read(SeatReading(limit, 0, limit, limit), limit)
        assert (seats.seats, seats.most) == (limit, limit)


def test_one_that_does_not_say_its_seats_is_found_by_what_waits_there() -> None:
    """Named with 256, it runs 32: one or two wait there instead of 224, and more are tried as soon as none waits."""
    found = played(Engine(32), 256)
    assert found[0] == 256
    assert all(32 <= one <= 36 for one in found[8:]), found
    grown = played(Engine(100), 256)
    assert all(100 <= one <= 160 for one in grown[10:])


def test_a_few_that_wait_for_another_reason_take_no_seats() -> None:
    """At a quiet time one waits for its grammar, all the time; and many that wait once are believed by halves."""
    seats = InstanceSeats(256)
    for _ in range(20):
        seats.read(SeatReading(2, 1), 3)
    assert seats.seats == 256
    for _ in range(2):
        seats.read(SeatReading(2, 40), 42)
    assert 64 <= seats.seats < 128


def test_a_burst_that_is_computed_soon_says_nothing_of_the_seats() -> None:
    """Requests that wait for their prompts, while more and more of them run."""
    seats = InstanceSeats(256)
    for running in (10, 60, 120, 200):
        seats.read(SeatReading(running, 200 - running), 200)
    assert seats.seats == 256


@given(st.integers(1, 300), st.lists(st.tuples(READINGS, st.integers(0, 300)), max_size=30))
def test_seats_stay_within_what_is_known(usual: int, history: list[tuple[SeatReading, int]]) -> None:
    """Never above the reach or the number named, never below a live limit, and never none of one that has some."""
    seats = InstanceSeats(usual)
    for seen, sent in history:
        seats.read(seen, sent)
        if seen.limit is None:
            assert 1 <= seats.seats <= usual == seats.most
        else:
            assert seen.limit <= seats.seats <= seats.most == max(seen.limit, seen.reach or 0)
            assert seats.seats > 0 or seen.limit == 0
