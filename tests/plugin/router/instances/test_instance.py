"""An instance as the routing policy sees it."""

from __future__ import annotations

from headway.router.addresses import Address
from headway.router.instances.instance import InstanceLink
from headway.router.instances.reading import InstanceReading


def test_the_policy_sees_the_last_reading_and_the_size_of_the_cache() -> None:
    """Seats, load, KV use and KV tokens; before a reading the size is not known."""
    link = InstanceLink(Address("a", "http://a", 2.0, frozenset({"realtime"})), 8, sent=3)
    assert link.state(0.0).kv_tokens is None
    link.read(InstanceReading(running=5, kv_use=0.25, kv_tokens=4000), 3)
    seen = link.state(1.0)
    assert (seen.name, seen.running, seen.kv_use, seen.kv_tokens, seen.weight) == ("a", 5, 0.25, 4000, 2.0)
    assert seen.classes == {"realtime"}
