"""A pool of instances as a front has it."""

from __future__ import annotations

from headway.admission import loop_time_s
from headway.router.addresses import Address
from headway.router.instances.instance import InstanceLink
from headway.router.instances.pool import InstancePool
from headway_policies.routing import LeastLoaded


def pool_of(*names: str, seats: int = 4, heard: bool = True, exclusive: bool = False) -> InstancePool:
    """Instances of these names with so many seats each, and healthy where they were ``heard``."""
    links = [InstanceLink(Address(name, f"http://{name}"), seats, exclusive=exclusive) for name in names]
    pool = InstancePool(links, LeastLoaded(), loop_time_s)
    for link in links if heard else ():
        pool.heard(link)
    return pool
