"""The figures of a server from one scrape of its metrics, as numbers by name: Ray Serve passes on nothing else.

Load and progress are read as ``headway route`` reads them. ``demand`` is what its own traffic asks for, in servers like
it that are full: at once for what runs and waits, and for what arrives, late queues and missed objectives as it says.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from headway.router.forwarding.call import InstanceLostError
from headway.router.instances.reading import read, samples
from headway_policies.scaling import Scaling

log = logging.getLogger("ray.serve")

READY, RATIO, NEED = "headway_ready", "headway_scale_ratio", "headway_desired_instances"
#: The part of its seats that a server counts on for its need.
_TARGET_RATIO = Scaling().target_ratio


def figures(exposition: str) -> dict[str, float]:
    """The figures of a scrape; missing figures are 0."""
    load = read(exposition)
    own = {name: value for name, _, value in samples(exposition) if name in (READY, RATIO, NEED)}
    return {
        "ready": own.get(READY, 0) > 0,
        "demand": max(own.get(RATIO, 0), _TARGET_RATIO * own.get(NEED, 0)),
        "seats": load.limit or 0,
        "load": load.running + load.waiting,
        "kv_use": load.kv_use,
        "kv_tokens": load.kv_tokens or 0,
        "tokens": load.tokens,
        "stale": False,
    }


class Figures:
    """The figures of one server; while the server is silent, its last figures, ``stale`` and not ready.

    ``scrape`` may raise InstanceLostError, OSError or ValueError.
    """

    def __init__(self, scrape: Callable[[], Awaitable[str]]) -> None:
        self._scrape = scrape
        self.known = figures("")

    async def read(self) -> dict[str, float]:
        """The figures of this moment."""
        try:
            self.known = figures(await self._scrape())
        except (InstanceLostError, OSError, ValueError) as error:
            if not self.known["stale"]:
                log.warning("headway: the metrics of the server could not be read: %s: %s", type(error).__name__, error)
            self.known = {**self.known, "ready": False, "stale": True}
        return self.known
