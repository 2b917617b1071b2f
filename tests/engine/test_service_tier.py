"""The service tier that a real server answers with: the one really used, on every generating route."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest
from running_server import RunningServer

ASKED = [{"role": "user", "content": "hello"}]
#: (asked for, answered): the class `batch` has the tier flex, `realtime` priority, `normal` the others.
TIERS = [
    ("auto", "default"),
    ("default", "default"),
    ("flex", "flex"),
    ("priority", "priority"),
    ("fast", "priority"),
]


def _openai(server: RunningServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


@pytest.mark.parametrize(("tier", "answered"), TIERS)
def test_a_chat_names_its_tier(server: RunningServer, tier: Any, answered: str) -> None:
    """Whole, and in the first chunk of a stream."""
    with _openai(server) as client:
        asked: dict[str, Any] = {"model": "tiny", "messages": ASKED, "max_tokens": 4, "service_tier": tier}
        whole = client.chat.completions.create(**asked)
        chunks = list(client.chat.completions.create(**asked, stream=True))
    assert whole.service_tier == answered
    assert [chunk.service_tier for chunk in chunks] == [answered] + [None] * (len(chunks) - 1)
    assert len(chunks) > 1


@pytest.mark.parametrize(("tier", "answered"), TIERS)
def test_a_completion_names_its_tier(server: RunningServer, tier: str, answered: str) -> None:
    """OpenAI's type has no such field; vLLM's has."""
    with _openai(server) as client:
        extra = {"service_tier": tier}
        whole = client.completions.create(model="tiny", prompt="a", max_tokens=4, extra_body=extra)
        chunks = list(client.completions.create(model="tiny", prompt="a", max_tokens=4, stream=True, extra_body=extra))
    assert whole.to_dict()["service_tier"] == chunks[0].to_dict()["service_tier"] == answered


@pytest.mark.parametrize(("tier", "answered"), TIERS)
def test_a_response_names_its_tier(server: RunningServer, tier: Any, answered: str) -> None:
    """Also the response that the last event of a stream carries."""
    with _openai(server) as client:
        asked: dict[str, Any] = {"model": "tiny", "input": "hello", "max_output_tokens": 4, "service_tier": tier}
        metadata = {"a": "b", "service_tier": "auto", "status": "completed"}
        whole = client.responses.create(**asked, metadata=metadata)
        carried = [
            event.response for event in client.responses.create(**asked, stream=True) if hasattr(event, "response")
        ]
    assert (whole.service_tier, whole.metadata) == (answered, metadata)
    assert {one.service_tier for one in carried} == {answered}
    assert len(carried) >= 3


@pytest.mark.parametrize(("tier", "answered"), [("auto", "standard"), ("standard_only", "standard")])
def test_a_message_names_its_tier_in_its_usage(server: RunningServer, tier: Any, answered: str) -> None:
    """In Anthropic's words, whole and streamed."""
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        asked: dict[str, Any] = {"model": "tiny", "messages": ASKED, "max_tokens": 4, "service_tier": tier}
        whole = client.messages.create(**asked)
        with client.messages.stream(**asked) as stream:
            streamed = stream.get_final_message()
    assert whole.usage.service_tier == streamed.usage.service_tier == answered


def test_nothing_is_said_where_nothing_was_asked(server: RunningServer) -> None:
    """The class alone is in a header."""
    with _openai(server) as client:
        whole = client.chat.completions.create(model="tiny", messages=ASKED, max_tokens=4)  # type: ignore[arg-type]
    assert whole.service_tier is None
