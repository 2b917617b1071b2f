"""Fallback to another model: what the large model's queue refuses, a small one answers.

    python plugin/examples/another_model.py

Both engines are fake ones here. Behind ``headway serve`` no program is needed: see README.md beside this file.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import headway
from headway.engine.fake import FakeEngine, FakeParams
from headway_policies import parse_preset

#: Two seats, and few places in the queue: what does not fit is refused at once, and so goes to the small model.
LARGE = """
name = "large"
extends = "balanced"
batching.seats = 2
queue.max_waiting = 2
classes.realtime = false
"""


class TwoModels:
    """Asks the large model first. Refusals come before any output, so nothing is answered twice."""

    def __init__(self, large: FakeEngine, small: FakeEngine) -> None:
        self._large = headway.wrap(large, parse_preset(LARGE, "the large model's preset"))
        self._small = headway.wrap(small, preset="throughput")

    async def ask(self, prompt: str, request_id: str, *, may_divert: bool) -> str:
        """The model that answered: ``large`` or ``small``. Raises headway.Refused where neither could."""
        try:
            return await self._run(self._large, "large", prompt, request_id)
        except (headway.Rejected, headway.Expired):
            if not may_divert:
                raise
        return await self._run(self._small, "small", prompt, request_id)

    async def _run(self, engine: headway.WrappedEngine, name: str, prompt: str, request_id: str) -> str:
        async for _ in engine.generate(prompt, FakeParams(max_tokens=8), request_id, timeout_s=20):
            pass
        return name


async def main() -> Counter[str]:
    """Send ten requests at once, two of which may not be diverted; returns how many each model answered."""
    models = TwoModels(FakeEngine(max_num_seqs=2), FakeEngine(max_num_seqs=64, step_s=0.002))

    async def ask(number: int) -> str:
        try:
            return await models.ask("A scheduler is", f"request-{number}", may_divert=number < 8)
        except headway.Refused as refused:
            return f"refused ({refused.reason})"

    answered = Counter(await asyncio.gather(*map(ask, range(10))))
    for name, number in sorted(answered.items()):
        print(f"{name}: {number}")
    return answered


if __name__ == "__main__":
    asyncio.run(main())
