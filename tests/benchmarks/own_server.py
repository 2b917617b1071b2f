"""A server of a benchmark's own, in processes of its own."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx

from headway_tools.demo.children import Family

START_S = 240.0
#: On the processor, without a model hub, and with nothing that an earlier server has learnt.
ENVIRONMENT: Mapping[str, str] = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HEADWAY_CACHE_DIR": "",
}


@asynccontextmanager
async def running(
    command: Sequence[str],
    environment: Mapping[str, str],
    ready: str = "/headway/readyz",
    within_s: float = START_S,
    log: Path | None = None,
) -> AsyncIterator[tuple[Family, int]]:
    """The processes and the port of a server, once the path ``ready`` answers; it is stopped at the end. A ``log`` is
    kept.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    family = Family()
    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, **ENVIRONMENT, **environment}
        family.start("server", [*command, "--port", str(port)], environ, log or Path(folder) / "server.log")
        try:
            await _answers(family, f"http://127.0.0.1:{port}{ready}", within_s)
            yield family, port
        finally:
            await family.stop(20.0)


async def _answers(family: Family, url: str, within_s: float) -> None:
    async with asyncio.timeout(within_s), httpx.AsyncClient() as http:
        while True:
            with suppress(httpx.HTTPError):
                if (await http.get(url)).is_success:
                    return
            if family.children[0].exit_code is not None:
                raise RuntimeError(f"the server ended: {family.children[0].output()[-1:]}")
            await asyncio.sleep(0.5)
