"""What must run before we are ready? One request alone, then a full batch at the lengths the preset names.

Runs while the socket is not yet listening. The requests bypass the gate and appear in no metric of Headway's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from headway.control import Control, WarmupReport
from headway.guard import TRIP, Trip
from headway_policies import Preset

log = logging.getLogger(__name__)


async def warm_up(engine: Any, control: Control) -> None:
    """Run both stages and write down how long each took. Raises what the engine raises."""
    preset, seats = control.preset, control.guard.gate.desk.limit
    report = control.warmup = WarmupReport(state="running", batch_size=seats)
    token = TRIP.set(Trip(bypass=True))
    try:
        report.single_s = await _timed(_batch(engine, preset, 1, "single"))
        log.info("warm-up: one request alone took %.2f s", report.single_s)
        report.batch_s = await _timed(_batch(engine, preset, seats, "batch"))
        log.info("warm-up: a full batch of %d took %.2f s", seats, report.batch_s)
        report.state = "done"
    except Exception as error:
        report.state, report.reason = "failed", type(error).__name__
        raise
    finally:
        TRIP.reset(token)


async def _batch(engine: Any, preset: Preset, size: int, stage: str) -> None:
    await asyncio.gather(*(_one(engine, preset, f"headway-warmup-{stage}-{index}", index) for index in range(size)))


async def _one(engine: Any, preset: Preset, request_id: str, index: int) -> None:
    from vllm import SamplingParams
    from vllm.inputs import TokensPrompt

    wanted = preset.warmup
    room_tokens = max(1, engine.model_config.max_model_len - wanted.output_tokens - 1)
    vocabulary = max(2, engine.model_config.get_vocab_size() - 1)
    length_tokens = min(wanted.prompt_tokens, room_tokens)
    tokens = [1 + (index * 7919 + position * 104_729) % (vocabulary - 1) for position in range(length_tokens)]
    params = SamplingParams(max_tokens=wanted.output_tokens, ignore_eos=True, temperature=0.0)
    async for _ in engine.generate(TokensPrompt(prompt_token_ids=tokens), params, request_id):
        pass


async def _timed(work: Any) -> float:
    started_s = time.perf_counter()
    await work
    return time.perf_counter() - started_s
