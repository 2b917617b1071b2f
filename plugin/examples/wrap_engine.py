"""An engine of one's own behind priority classes, bounded queues and time-outs.

python plugin/examples/wrap_engine.py           # a fake engine, where there is no vLLM or no model
python plugin/examples/wrap_engine.py MODEL     # vLLM's AsyncLLMEngine with this model
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from typing import Any

import headway
from headway.engine.fake import FakeEngine, FakeParams


def make_engine(model: str | None) -> tuple[Any, Any]:
    """An engine, and the sampling parameters that it takes."""
    if model is None or importlib.util.find_spec("vllm") is None:
        return FakeEngine(max_num_seqs=4), FakeParams(max_tokens=16)
    from vllm import AsyncEngineArgs, SamplingParams
    from vllm.engine.async_llm_engine import AsyncLLMEngine

    args = AsyncEngineArgs(model=model, max_model_len=1024, scheduling_policy="priority")
    return AsyncLLMEngine.from_engine_args(args), SamplingParams(max_tokens=16)


async def ask(engine: headway.WrappedEngine, params: Any, request_id: str, **terms: Any) -> str:
    """The answer to one request, or why it was refused; ``terms`` are its priority, tenant and time-out."""
    last: Any = None
    try:
        async for output in engine.generate("A scheduler is", params, request_id, **terms):
            last = output
    except headway.Refused as refused:
        return f"refused: {refused.reason}, try again in {refused.retry_after_s} s"
    return repr(last.outputs[0].text) if hasattr(last, "outputs") else "answered"


async def main(model: str | None = None) -> dict[str, str]:
    """Send three requests of two tenants, switch the preset, and return what became of each request."""
    bare, params = make_engine(model)
    engine = headway.wrap(bare, preset="balanced")
    try:
        answers = await asyncio.gather(
            ask(engine, params, "chat", priority="realtime", tenant="a", timeout_s=20),
            ask(engine, params, "report", priority="batch", tenant="b"),
            ask(engine, params, "late", timeout_s=0.001),
        )
        found = dict(zip(("chat", "report", "late"), answers, strict=True))
        for name, answer in found.items():
            print(f"{name}: {answer}")
        await engine.headway.switch("latency", expected_revision=None, caller=headway.Caller("example"))
        print("preset:", engine.headway.status().preset.name)
    finally:
        if hasattr(bare, "shutdown"):
            bare.shutdown()
    return found


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
