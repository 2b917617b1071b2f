"""Instances that come and go: the pool follows the addresses of a name, and never an outage of the DNS."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

import pytest
from instance_pools import pool_of
from virtual_time import on_virtual_time

from headway.router.addresses import MAX_INSTANCES, DnsName
from headway.router.forwarding.call import Call
from headway.router.instances.discovery import EVERY_S, Discovery, resolve
from headway.router.instances.pool import InstancePool
from headway_policies.fallback import Verdict
from headway_policies.routing import Demand


class Names:
    """A resolver: the addresses of each name, or the error that it raises."""

    def __init__(self, **found: Sequence[str] | Exception) -> None:
        self.found = found

    async def resolve(self, host: str) -> Sequence[str]:
        found = self.found[host]
        if isinstance(found, Exception):
            raise found
        return found


def followed(names: Names, *fixed: str) -> tuple[InstancePool, Discovery]:
    """A pool with these instances, which follows all names; an instance has three seats where it does not say it."""
    pool = pool_of(*fixed, seats=3, heard=False)
    return pool, Discovery(pool, [DnsName(host, 80) for host in names.found], 3, names.resolve)


@on_virtual_time
async def test_every_address_of_every_name_is_an_instance() -> None:
    """Once, beside those that have an address of their own."""
    pool, discovery = followed(Names(a=["10.0.0.1", "10.0.0.2"], b=["10.0.0.2", "fd00::1"]), "c:80", "10.0.0.1:80")
    await discovery.once()
    assert list(pool.links) == ["c:80", "10.0.0.1:80", "10.0.0.2:80", "fd00::1:80"]
    assert pool.links["fd00::1:80"].address.url == "http://[fd00::1]:80"
    assert pool.most_seats() == 12


@on_virtual_time
async def test_an_address_that_left_drains_and_one_that_came_is_used() -> None:
    """Fixed addresses stay."""
    names = Names(a=["10.0.0.1", "10.0.0.2"])
    pool, discovery = followed(names, "c:80")
    running = asyncio.create_task(discovery.run())
    await asyncio.sleep(EVERY_S + 0.1)
    for link in pool.links.values():
        pool.heard(link)
    leases = [await pool.lease(Call(), Demand(10), frozenset()) for _ in range(3)]
    (lease,) = [lease for lease in leases if lease.link.address.name == "10.0.0.1:80"]
    names.found["a"] = ["10.0.0.3"]
    await asyncio.sleep(EVERY_S)
    assert {name: link.leaving for name, link in pool.links.items()} == {
        "c:80": False, "10.0.0.1:80": True, "10.0.0.2:80": True, "10.0.0.3:80": False,
    }  # fmt: skip
    pool.release(lease, Verdict.SUCCESS, "answered")
    await asyncio.sleep(EVERY_S)
    assert list(pool.links) == ["c:80", "10.0.0.2:80", "10.0.0.3:80"]
    running.cancel()


@pytest.mark.parametrize(
    "answer", [OSError(socket.EAI_AGAIN, "no answer"), socket.gaierror(-2, "unknown"), UnicodeError("label"), ()]
)
@on_virtual_time
async def test_without_an_answer_the_instances_of_before_stay(
    answer: Sequence[str] | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where it is empty; it is said once. At the start there are none."""
    names = Names(a=answer)
    pool, discovery = followed(names)
    await discovery.once()
    assert not pool.links
    names.found["a"] = ["10.0.0.1"]
    await discovery.once()
    caplog.clear()
    names.found["a"] = answer
    for _ in range(3):
        await discovery.once()
    assert [link.leaving for link in pool.links.values()] == [False]
    assert len(caplog.records) == 1


@on_virtual_time
async def test_the_number_of_instances_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """Known instances stay; of the others there is one warning for each number of them."""
    names = Names(a=["10.1.0.1"])
    pool, discovery = followed(names)
    await discovery.once()
    names.found["a"] = [f"10.0.{number // 256}.{number % 256}" for number in range(300)] + ["10.1.0.1"]
    for _ in range(3):
        await discovery.once()
    assert len(pool.links) == MAX_INSTANCES
    assert not pool.links["10.1.0.1:80"].leaving
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == ["45 instances are left out: at most 256 are possible"]
    names.found["a"] = ["10.1.0.1", "10.2.0.1"]
    await discovery.once()
    await discovery.once()
    assert list(pool.links) == ["10.1.0.1:80", "10.2.0.1:80"]


@on_virtual_time
async def test_an_error_of_the_resolver_does_not_end_the_discovery(caplog: pytest.LogCaptureFixture) -> None:
    """The error is logged, and the name is asked for again."""
    names = Names(a=RuntimeError("unexpected"))
    pool, discovery = followed(names)
    running = asyncio.create_task(discovery.run())
    await asyncio.sleep(EVERY_S + 0.1)
    assert "could not be brought up to date" in caplog.text
    names.found["a"] = ["10.0.0.1"]
    await asyncio.sleep(EVERY_S)
    assert list(pool.links) == ["10.0.0.1:80"]
    running.cancel()


async def test_the_resolver_of_the_system_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of both kinds of addresses those of IPv4, in order, each once."""

    def found(host: str, *_: object, **__: object) -> list[object]:
        kinds = [(socket.AF_INET6, "fd00::1"), (socket.AF_INET, "10.0.0.2"), (socket.AF_INET, "10.0.0.1")] * 2
        shown = kinds if host == "both" else [kind for kind in kinds if kind[0] is socket.AF_INET6]
        return [(family, socket.SOCK_STREAM, 6, "", (address, 0)) for family, address in shown]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    assert await resolve("both") == ["10.0.0.1", "10.0.0.2"]
    assert await resolve("six") == ["fd00::1"]
