"""The metrics of the server that this process has started, beside its own in one scrape.

Each of several API servers answers with the figures of all of them, added up from the files of ``prometheus_client``'s
multi-process mode; this process's own figures are left out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

import aiohttp

from headway.router.engine import InstancesEngine

log = logging.getLogger(__name__)

_PATH: Final = "/metrics"
_WITHIN_S: Final = 2.0


class EngineMetrics:
    """The reader of that server's metrics. While the server does not answer there are no figures of the engine."""

    def __init__(self, engine: InstancesEngine) -> None:
        self._engine = engine

    async def beside(self, own: str) -> str:
        """The families of the engine that are not in ``own``, this process's exposition."""
        for link in self._engine.pool.healthy():
            try:
                status, text = await self._engine.client.get(link.address, _PATH, _WITHIN_S)
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                log.debug("no metrics of %s: %s", link.address.name, error)
            else:
                if status == HTTPStatus.OK:
                    return "".join(f"{line}\n" for line in other_families(text, families(own)))
        return ""


def families(exposition: str) -> frozenset[str]:
    """The names of the families in an exposition, as its comments say them."""
    return frozenset(name for line in exposition.split("\n") if (name := _family(line)) is not None)


def other_families(exposition: str, known: frozenset[str]) -> Iterator[str]:
    """The lines of an exposition but for the families that are known."""
    wanted = True
    for line in exposition.split("\n"):
        name = _family(line)
        if name is not None:
            wanted = name not in known
        if wanted and line:
            yield line


def _family(line: str) -> str | None:
    """The family of a comment line."""
    words = line.split(" ", 3)
    return words[2] if len(words) > 2 and words[0] == "#" and words[1] in ("HELP", "TYPE") else None
