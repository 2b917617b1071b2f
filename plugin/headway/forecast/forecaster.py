"""The forecaster: starts the process that computes a forecast, follows its progress, and bounds its time.

Forecasts are computed one at a time: several would only take the processor from each other, and from the server. The
event loop packs the job and reads a few lines; all else is done by the other process.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from headway.api.schema import PresetForecast
from headway.errors import HeadwayError
from headway.forecast.job import ForecastError, Job

#: How long a forecast may take; what is done by then is answered.
WITHIN_S = 60.0
_GRACE_S = 15.0  # to start the process, and to end it
_MAX_LINE_BYTES = 4 * 1024 * 1024
#: Not for another process: tokens, and what steers a server.
_OWN_VARIABLES = ("HEADWAY_", "VLLM_")
_FORECASTS = TypeAdapter(list[PresetForecast])


class BusyError(HeadwayError):
    """Another forecast is being computed."""


@dataclass(frozen=True, slots=True)
class Forecasts:
    """The forecast of each preset for the last ``requests`` sequences, which arrived in ``span_s`` seconds.

    ``seeds`` is how many replays each figure is of, at least; a preset whose first replay took too long is missing.
    """

    span_s: float
    requests: int
    seeds: int
    presets: Sequence[PresetForecast]


class Forecaster:
    """The forecaster of one server. ``done`` is the finished part of the present forecast, None without one."""

    def __init__(self) -> None:
        self.done: float | None = None

    async def compute(self, job: Job, within_s: float = WITHIN_S) -> Forecasts:
        """The forecast. Raises ForecastError where there can be none, BusyError while another one is computed.

        Where the caller is cancelled the process ends as well.
        """
        if self.done is not None:
            raise BusyError("another forecast is being computed")
        self.done = 0.0
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "headway.forecast",
                f"{within_s:g}",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=_for_child(os.environ),
                limit=_MAX_LINE_BYTES,
            )
            try:
                async with asyncio.timeout(within_s + _GRACE_S):
                    return await self._converse(process, job)
            except TimeoutError:
                raise ForecastError(f"the forecast was not ready within {within_s:g} s") from None
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()
        finally:
            self.done = None

    async def _converse(self, process: asyncio.subprocess.Process, job: Job) -> Forecasts:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for piece in job.pieces():
                process.stdin.write(piece)
                await process.stdin.drain()
                await asyncio.sleep(0)  # a turn of the loop for each
            process.stdin.close()
        except ConnectionError:
            raise ForecastError("the process that computes forecasts could not be started") from None
        async for line in process.stdout:
            try:
                said: dict[str, Any] = json.loads(line)
            except ValueError:
                raise ForecastError("the process that computes forecasts said what is no answer") from None
            if "error" in said:
                raise ForecastError(said["error"])
            if "forecasts" in said:
                presets = _FORECASTS.validate_python(said["forecasts"])
                return Forecasts(said["span_s"], said["requests"], said["seeds"], presets)
            self.done = said["done"]
        raise ForecastError("the process that computes forecasts ended early")


def _for_child(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(_OWN_VARIABLES)}
