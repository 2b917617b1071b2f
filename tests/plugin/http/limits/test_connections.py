"""Open connections: counted in all and by address, and free again when they are closed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway.http.limits.bounds import Bounds
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


def test_an_address_has_a_bound_of_its_own() -> None:
    """Others are not affected."""
    connections = Connections(100, 1)
    assert [connections.enter(address) for address in ("10.0.0.1", "10.0.0.1", "10.0.0.2")] == [True, False, True]
    connections.leave("10.0.0.1")
    assert connections.enter("10.0.0.1")


def test_a_network_of_an_ipv6_client_is_one_address() -> None:
    """64 bits of it."""
    connections = Connections(100, 1)
    assert [connections.enter(f"2001:db8:0:{one}") for one in ("0::1", "0::ffff", "1::1")] == [True, False, True]


def test_a_socket_file_has_no_address() -> None:
    """Only the bound of all holds."""
    connections = Connections(3, 1)
    assert [connections.enter(None) for _ in range(4)] == [True, True, True, False]


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


def test_the_bounds_of_connections_are_variables() -> None:
    """8192 in all; of one address none, for it may be a proxy's."""
    usual = Bounds.from_environment({})
    assert (usual.max_header_fields, usual.max_connections, usual.max_connections_per_address) == (128, 8192, None)
    variables = {"HEADER_FIELDS": "20", "CONNECTIONS": "30", "CONNECTIONS_PER_ADDRESS": "4"}
    found = Bounds.from_environment({f"HEADWAY_MAX_{name}": value for name, value in variables.items()})
    assert (found.max_header_fields, found.max_connections, found.max_connections_per_address) == (20, 30, 4)


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("HEADWAY_MAX_HEADER_FIELDS", "15", "a whole number of at least 16"),
        ("HEADWAY_MAX_CONNECTIONS", "0", "a positive whole number"),
        ("HEADWAY_MAX_CONNECTIONS_PER_ADDRESS", "few", "a positive whole number"),
    ],
)
def test_a_wrong_bound_names_its_variable(variable: str, value: str, says: str) -> None:
    """At the start, in one line."""
    with pytest.raises(HeadwayError, match=f"^{variable}: {says}"):
        Bounds.from_environment({variable: value})
