"""A web service with FastAPI that batches the calls of a function: single requests come in, batches go to the model.

uvicorn --app-dir plugin/examples batcher_api:app
curl 'http://127.0.0.1:8000/embed?text=scheduler&priority=2'
curl http://127.0.0.1:8000/stats
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse

import headway


async def embed(texts: list[str]) -> list[list[float]]:
    """The model: one call for all texts of a batch."""
    await asyncio.sleep(0.02)
    return [[float(len(text)), float(sum(map(ord, text)) % 97)] for text in texts]


batcher = headway.Batcher(embed, max_batch_size=16, max_wait_ms=5, max_size=200, count_tokens=len)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Refuse new items when the server ends, and finish the others."""
    async with batcher:
        yield


app = FastAPI(lifespan=lifespan)


@app.exception_handler(headway.Refused)
async def refused(request: Request, error: headway.Refused) -> JSONResponse:
    """A full queue is 429, a wait over the time-out 503, a run over the time-out 504."""
    headers = {"Retry-After": str(error.retry_after_s), "x-headway-reason": str(error.reason)}
    return JSONResponse({"detail": str(error)}, error.status, headers)


@app.get("/embed")
async def embedding(
    text: Annotated[str, Query(max_length=2000)],
    priority: Annotated[int, Query(ge=0, le=2)] = 0,
) -> list[float]:
    """The vector of one text. A larger priority is more urgent."""
    return await batcher.submit(text, priority=priority, timeout=10.0)


@app.get("/stats")
async def stats() -> headway.BatcherStats:
    """The counts of the batcher so far."""
    return batcher.stats()
