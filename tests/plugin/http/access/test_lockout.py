"""Lock-out: after how many wrong keys, for how long, and for which addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.http.access.lockout import MAX_ADDRESSES, Lockout


def test_an_address_is_locked_from_the_last_allowed_wrong_key_until_its_minute_is_over() -> None:
    """The minute begins with the first wrong key, not with the last."""
    lockout = Lockout(10, 60.0)
    for second in range(9):
        lockout.wrong("192.0.2.1", float(second))
    assert lockout.locked("192.0.2.1", 9.0) == 0
    lockout.wrong("192.0.2.1", 9.0)
    assert lockout.locked("192.0.2.1", 10.0) == 50.0
    assert lockout.locked("192.0.2.2", 10.0) == 0
    assert lockout.locked("192.0.2.1", 60.0) == 0


def test_a_new_window_begins_after_the_old_one() -> None:
    """Wrong keys of a minute ago no longer count."""
    lockout = Lockout(2, 60.0)
    lockout.wrong("192.0.2.1", 0.0)
    lockout.wrong("192.0.2.1", 60.0)
    assert lockout.locked("192.0.2.1", 60.0) == 0
    lockout.wrong("192.0.2.1", 61.0)
    assert lockout.locked("192.0.2.1", 61.0) == 59.0


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("no:address", "no:address", True),
        ("no:address", "no:other", False),
    ],
)
def test_addresses_of_ipv6_count_by_their_network(one: str, other: str, same: bool) -> None:
    """A subscriber has a /64; an IPv4 address counts by itself in either notation."""
    lockout = Lockout(1, 60.0)
    lockout.wrong(one, 0.0)
    assert (lockout.locked(other, 1.0) > 0) is same


def test_requests_of_a_unix_socket_are_never_locked() -> None:
    """Such requests have no address: all of them would be locked together."""
    lockout = Lockout(1, 60.0)
    lockout.wrong(None, 0.0)
    assert lockout.locked(None, 0.0) == 0
    assert len(lockout) == 0


def test_memory_is_bounded_and_the_oldest_window_goes_first() -> None:
    """However many addresses there are."""
    lockout = Lockout(1, 60.0)
    for number in range(MAX_ADDRESSES + 1):
        lockout.wrong(f"10.0.{number // 256}.{number % 256}", number / 1000)
    assert len(lockout) == MAX_ADDRESSES
    assert lockout.locked("10.0.0.0", 5.0) == 0
    assert lockout.locked("10.0.0.1", 5.0) > 0
    lockout.wrong("192.0.2.1", 1000.0)
    assert len(lockout) == 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 30)), max_size=60))
def test_locked_are_exactly_those_with_enough_wrong_keys_in_their_window(steps: list[tuple[str, float]]) -> None:
    """Compared with a plain count of the wrong keys since the window of each address began."""
    lockout, now_s, windows = Lockout(3, 60.0), 0.0, dict[str, tuple[float, int]]()
    for address, pause_s in steps:
        now_s += pause_s
        began_s, wrong = windows.get(address, (now_s, 0))
        began_s, wrong = (now_s, 0) if now_s >= began_s + 60.0 else (began_s, wrong)
        windows[address] = (began_s, wrong + 1)
        lockout.wrong(address, now_s)
        for window, (since_s, count) in windows.items():
            expected = since_s + 60.0 - now_s if count >= 3 else 0.0
            assert lockout.locked(window, now_s) == pytest.approx(max(0.0, expected))
