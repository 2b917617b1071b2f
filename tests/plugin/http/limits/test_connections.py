"""Open connections: counted in all and by address, and free again when they are closed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headway.http.limits.connections import Connections

ADDRESSES = st.sampled_from(
    ["10.0.0.1", "10.0.0.2", "::ffff:10.0.0.1", "2001:db8::1", "2001:db8::2", "fe80::1%eth0", None]
)


def test_all_connections_together_are_bounded() -> None:
    """Whatever their addresses; one that is closed makes room."""
    connections = Connections(2)
    assert [connections.enter(address) for address in ("a", None, "b")] == [True, True, False]
    connections.leave(None)
    assert connections.enter("b")


def test_a_network_of_an_ipv6_client_is_one_address() -> None:
    """64 bits of it."""
    connections = Connections(100, 1)
    assert [connections.enter(f"2001:db8:0:{one}") for one in ("0::1", "0::ffff", "1::1")] == [True, False, True]


@given(st.lists(st.tuples(st.booleans(), ADDRESSES)))
def test_what_is_closed_leaves_nothing(steps: list[tuple[bool, str | None]]) -> None:
    """In any order of connections; afterwards there is room for all again, and no address is remembered."""
    connections, opened = Connections(5, 2), []
    for arrives, address in steps:
        if arrives and connections.enter(address):
            opened.append(address)
        elif not arrives and opened:
            connections.leave(opened.pop(0))
        assert len(opened) <= 5
    for address in opened:
        connections.leave(address)
    assert not connections._by_address
    assert [connections.enter(None) for _ in range(6)] == [True] * 5 + [False]
