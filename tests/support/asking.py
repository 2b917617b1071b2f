"""The four generating routes, and how to ask each of them."""

from __future__ import annotations

from typing import Any

ROUTES = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")


def body(route: str, max_tokens: int, *, stream: bool = False, prompt: str = "Say something.") -> dict[str, Any]:
    """A valid body for a route. The tiny model never stops by itself before ``max_tokens``, or hardly ever."""
    asked: dict[str, Any] = {"model": "tiny", "stream": stream}
    if route == "/v1/responses":
        return {**asked, "input": prompt, "max_output_tokens": max_tokens}
    if route == "/v1/completions":
        return {**asked, "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True}
    messages = [{"role": "user", "content": prompt}]
    extra = {"ignore_eos": True} if route == "/v1/chat/completions" else {}
    return {**asked, "messages": messages, "max_tokens": max_tokens, **extra}
