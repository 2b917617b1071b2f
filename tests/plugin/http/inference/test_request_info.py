"""Request information that the middleware reads from headers and body before the request is parsed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from small_presets import small_preset

from headway.admission.request_context import RequestContext
from headway.api_errors import BadRequest
from headway.http.inference.request_info import MAX_VALUE_CHARS, read_request_info
from headway.openai.routes import route_at

CHAT = "/v1/chat/completions"


def context(body: Any = None, headers: dict[str, str] | None = None, path: str = CHAT) -> RequestContext:
    """The context of a request with this body."""
    raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    return read_request_info(headers or {}, route_at(path), raw, small_preset())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"max_tokens": 7}, 7),
        ({"max_completion_tokens": 8}, 8),
        ({"max_output_tokens": 9}, 9),
        (b'{"max_tokens"   :\n 12}', 12),
        ({"max_tokens": None}, None),
        ({"max_tokens": -1}, None),
        ({"max_tokens": "7"}, 7),
        ({"max_tokens": 7.0}, 7),
        ({"max_tokens": 10**400}, 999_999_999),
        ({"max_tokens": 1, "max_completion_tokens": 2}, 2),
        ({"sampling_params": {"max_tokens": 9}}, 9),
        ({"metadata": {"max_tokens": 9}}, None),
        (b'{"max_tokens": 5, "max_tokens": 6, "temperature": NaN}', 6),
        ({"messages": [{"role": "user", "content": 'say "max_tokens": 5'}]}, None),
        ({}, None),
        (b"not JSON at all", None),
    ],
)
def test_max_tokens_is_the_largest_limit_of_the_body(body: Any, expected: int | None) -> None:
    """Whichever of its names it goes by; not from a text, or another object, that speaks of it."""
    assert context(body).max_tokens == expected


def test_the_size_is_an_estimate_until_the_prompt_is_rendered() -> None:
    """Bytes are exact, four of them are taken for a token, a list of prompts shares them."""
    body = json.dumps({"prompt": ["x" * 400, "y" * 400]}).encode()
    found = context(body, path="/v1/completions")
    assert (found.asked.prompts, found.asked.prompt_bytes) == (2, len(body))
    assert found.asked.prompt_tokens == len(body) // 4 // 2


def test_an_image_is_not_counted_as_text() -> None:
    """Nothing is guessed of an image, its bytes still count, and so does the text beside it."""
    image = {"url": "data:image/png;base64," + "A" * 4000}
    found = context({"images": [image, image], "text": "word " * 100})
    assert found.asked.prompt_bytes > 8500
    assert 125 <= found.asked.prompt_tokens < 200


@pytest.mark.parametrize("text", [";base64,", "see data:;base64,", "x" * 200 + ";base64,"])
def test_a_text_that_speaks_of_files_is_text(text: str) -> None:
    """No header bypasses the bounds on waiting tokens."""
    body = {"prompt": text + "word " * 1000}
    assert context(body).asked.prompt_tokens == len(json.dumps(body)) // 4


def test_a_file_that_breaks_off_is_measured_all_the_same() -> None:
    """vLLM's own error names what is wrong with such a body."""
    assert context(b'{"url": "data:image/png;base64,AAAA').asked.prompt_tokens == 2


def test_a_body_of_another_kind_has_no_size() -> None:
    """A body that is not JSON is not read, and nothing is claimed of it."""
    found = context(None)
    assert (found.asked.prompt_tokens, found.asked.prompt_bytes, found.max_tokens) == (0, 0, None)


@pytest.mark.parametrize(("value", "expected"), [("no", False), ("yes", True), (" NO ", False), (None, True)])
def test_a_client_may_refuse_to_queue(value: str | None, expected: bool) -> None:
    """x-headway-queue: no; the default is to wait."""
    assert context({}, {} if value is None else {"x-headway-queue": value}).may_wait is expected


@pytest.mark.parametrize("value", ["", "never", "0", "x" * 41])
def test_a_doubtful_wish_about_the_queue_is_refused(value: str) -> None:
    """Anything but yes and no is the caller's mistake, and refused as such."""
    with pytest.raises(BadRequest, match=f"^x-headway-queue: yes or no is needed, not '{value[:40]}'") as caught:
        context({}, {"x-headway-queue": value})
    assert (caught.value.status, caught.value.code) == (400, "bad_queue")


def test_a_stream_is_known_by_its_body() -> None:
    """The meaning of the SDK's read time-out depends on whether the answer is a stream."""
    headers = {"x-stainless-read-timeout": "600"}
    assert context({"stream": True}, headers).timeouts.first_token_s == 600
    assert context({"stream": False}, headers).timeouts.total_s == 600


@pytest.mark.parametrize("header", sorted(MAX_VALUE_CHARS))
def test_a_value_longer_than_any_that_means_something_is_refused_by_name(header: str) -> None:
    """400 for every header that is read, before it is; the value is not repeated."""
    most = MAX_VALUE_CHARS[header]
    with pytest.raises(
        BadRequest, match=f"^{header}: at most {most} characters are allowed, not {most + 1}$"
    ) as caught:
        context({}, {header: "7" * (most + 1)})
    assert (caught.value.status, caught.value.code) == (400, "header_too_long")


def test_a_tenant_may_be_as_long_as_an_id_of_another_system() -> None:
    """128 characters, none of which is lost."""
    assert context({}, {"x-headway-tenant": "t" * 128}).tenant == "t" * 128


PROMPTS = {"prompt": ["ab"] * 40, "max_tokens": 300, "background": True, "stream": True}
PLAIN = json.dumps(PROMPTS)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/invocations", PLAIN.encode()),
        ("/v1/completions", PLAIN.replace('"prompt"', '"\\u0070rompt"').encode()),
        *(("/v1/completions", PLAIN.encode(encoding)) for encoding in ("utf-16", "utf-16-be", "utf-32", "utf-8-sig")),
    ],
    ids=["invocations", "escaped", "utf-16", "utf-16-be", "utf-32", "marked"],
)
def test_a_body_is_measured_however_it_is_written(path: str, body: bytes) -> None:
    """No spelling of a key gives a request more seats than it is counted for."""
    found = context(body, path=path)
    assert (found.asked.prompts, found.max_tokens, found.asked.prompt_bytes) == (40, 300, len(body))


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/v1/completions", {"prompt": "one"}, 1),
        ("/v1/completions", {"prompt": [1, 2, 3]}, 1),
        ("/v1/completions", {"prompt": [[1, 2], [3]]}, 2),
        ("/v1/completions", {"prompt_embeds": ["AA", "AA", "AA"]}, 3),
        ("/v1/completions", {"prompt_embeds": ["AA", "AA", "AA"], "prompt": ["a", "b"]}, 5),
        ("/v1/completions", {"prompt_embeds": "AA", "prompt": ["a", "b"]}, 3),
        ("/v1/completions", {"prompt": []}, 1),
        ("/v1/chat/completions/batch", {"messages": [[{"role": "user"}]] * 4}, 4),
        ("/v1/chat/completions/batch", {"messages": [{"role": "user"}] * 4}, 1),
        ("/v1/chat/completions/batch", {"messages": [[], [], []]}, 3),
        *(("/v1/chat/completions/batch", {"messages": wrong}, 1) for wrong in ([], "text", None)),
        ("/invocations", {"prompt_embeds": ["AA", "AA"]}, 2),
        ("/invocations", {"messages": [[{"role": "user"}]] * 4}, 4),
        ("/invocations", {"messages": [{"role": "user"}] * 4}, 1),
        ("/v1/chat/completions", {"messages": [{"role": "user"}] * 4, "prompt": ["a", "b"]}, 1),
    ],
)
def test_every_prompt_of_a_body_is_counted(path: str, body: Any, expected: int) -> None:
    """Texts, lists of tokens, embeddings and whole conversations; turns of one conversation are one prompt."""
    assert context(body, path=path).asked.prompts == expected


@pytest.mark.parametrize("key", ["background", "b\\u0061ckground"])
def test_a_request_in_the_background_is_known_by_its_body(key: str) -> None:
    """However it is written."""
    body = PLAIN.replace('"background"', f'"{key}"').encode()
    assert context(body, path="/v1/responses").asked.detached


def test_each_of_many_images_is_omitted() -> None:
    """The first, the last and those between; what stands between them is text."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 40_000}}
    text = {"type": "text", "text": "t" * 4_000}
    found = context({"messages": [{"role": "user", "content": [image, text, image, text, image]}]}).asked.prompt_tokens
    assert 2_000 <= found < 2_400


def test_a_file_without_an_end_of_its_kind_is_text() -> None:
    """A word more than a hundred characters before the mark is not the kind of a file."""
    long_kind = "data:" + "x" * 200 + ";base64," + "A" * 4_000
    assert context({"prompt": long_kind}).asked.prompt_tokens > 1_000
