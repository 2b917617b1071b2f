"""The four generation routes, and a valid request body for each."""

from __future__ import annotations

from typing import Any

ROUTES = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")


def body(route: str, max_tokens: int, *, stream: bool = False, prompt: str = "Say something.") -> dict[str, Any]:
    """A valid body for a route. The tiny model almost never stops before ``max_tokens``."""
    common: dict[str, Any] = {"model": "tiny", "stream": stream}
    if route == "/v1/responses":
        return {**common, "input": prompt, "max_output_tokens": max_tokens}
    if route == "/v1/completions":
        return {**common, "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True}
    messages = [{"role": "user", "content": prompt}]
    extra = {"ignore_eos": True} if route == "/v1/chat/completions" else {}
    return {**common, "messages": messages, "max_tokens": max_tokens, **extra}
