"""The demands of a request: the only reading of its body, for the server in an engine and for the front.

Sizes are estimates that hold until vLLM has rendered the prompt: four bytes of body count as a token; images and audio
are not counted.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Raw, Struct

from headway.openai.fields import (
    CONVERSATIONS,
    LIMITS,
    Fields,
    count_prompts,
    is_list_of_lists,
    is_true,
    read_fields,
    value_of,
    whole_number,
)
from headway.openai.routes import UNKNOWN, Api, Route

_BYTES_PER_TOKEN: Final = 4
_MEDIA: Final = b";base64,"
_MAX_TYPE_BYTES: Final = 100
_MAX_NAME_CHARS: Final = 256
#: No model generates more; vLLM lowers what exceeds its context.
_MOST_TOKENS: Final = 999_999_999

_ANSWERS: Final = ("n", "best_of")
_GRAMMARS: Final = ("structured_outputs", "response_format", "text", "output_config", "tools")
_PLAIN_BYTES: Final = 4096
#: The marks of a grammar that is not plain (vllm_adapter/grammars/plain.py), and an escape, which may hide one.
_CHOICES: Final = (b"anyOf", b"oneOf")
_PLAIN_CHOICES: Final = 16
_MULTIPLIES = re.compile(rb"pattern|regex|grammar|structural|Length|Items|Properties|imum|\\u")


class Asked(Struct, frozen=True):
    """The demands of one request: ``answers`` to each of its ``prompts``, as events where it ``streams``.

    ``prompt_tokens`` are those of one prompt, ``prompt_bytes`` the whole body. ``max_tokens`` is the largest limit that
    the body names, ``service_tier`` the tier, ``model`` the model or adapter. ``detached``: the engine call outlives
    the HTTP request. ``large_grammar``: the grammar may have to be compiled before the engine gets the call.
    ``sampling`` are the fields of ``sampling_params``.
    """

    route: Route = UNKNOWN
    fields: Fields = {}
    sampling: Fields = {}
    prompts: int = 1
    answers: int = 1
    prompt_tokens: int = 0
    prompt_bytes: int = 0
    max_tokens: int | None = None
    service_tier: str | None = None
    model: str | None = None
    streams: bool = False
    detached: bool = False
    large_grammar: bool = False


#: The demands of a request whose body is not read.
NOTHING: Final = Asked()


def read_asked(route: Route, body: bytes) -> Asked:
    """Read a JSON body; anything but an object asks for nothing, and vLLM refuses it. Costs its bytes."""
    fields = read_fields(body)
    sampling = read_fields(fields["sampling_params"]) if "sampling_params" in fields else {}
    prompts, tier, model = _prompts(route, fields), value_of(fields.get("service_tier")), value_of(fields.get("model"))
    return Asked(
        route,
        fields,
        sampling,
        prompts=prompts,
        answers=_answers(fields, sampling),
        prompt_tokens=(len(body) - _media_bytes(body)) // _BYTES_PER_TOKEN // prompts,
        prompt_bytes=len(body),
        max_tokens=_max_tokens(fields, sampling),
        service_tier=tier if isinstance(tier, str) else None,
        model=model[:_MAX_NAME_CHARS] if isinstance(model, str) else None,
        streams=is_true(fields.get("stream")),
        detached=route.api is Api.RESPONSES and is_true(fields.get("background")),
        large_grammar=_names_large_grammar(fields) or _names_large_grammar(sampling),
    )


def _prompts(route: Route, fields: Fields) -> int:
    """The number of prompts in a body: texts, lists of tokens, embeddings, or whole conversations."""
    found = 0
    for name in route.prompts:
        raw = fields.get(name)
        if raw is not None and (name not in CONVERSATIONS or is_list_of_lists(raw)):
            found += count_prompts(raw)
    return max(1, found)


def _answers(*layers: Fields) -> int:
    """The largest number of answers that a body names."""
    numbers = [whole_number(fields[name]) for fields in layers for name in _ANSWERS if name in fields]
    return max((1, *(number for number in numbers if number is not None)))


def _max_tokens(*layers: Fields) -> int | None:
    """The largest of the limits that a body names: several keys mean the same."""
    numbers = [whole_number(fields[name]) for fields in layers for name in LIMITS if name in fields]
    most = max((number for number in numbers if number is not None), default=-1)
    return None if most < 0 else min(most, _MOST_TOKENS)


def _names_large_grammar(fields: Fields) -> bool:
    return any(_may_be_large(fields[name]) for name in _GRAMMARS if name in fields)


def _may_be_large(grammar: Raw) -> bool:
    """Whether a grammar may have to be compiled outside of the engine first: it is long, or may multiply."""
    if len(grammar) > _PLAIN_BYTES or _MULTIPLIES.search(grammar) is not None:
        return True
    text = bytes(grammar)
    return text.count(b",") >= _PLAIN_CHOICES and any(word in text for word in _CHOICES)


def _media_bytes(body: bytes) -> int:
    """The bytes of strings that hold a file: ``"data:image/png;base64,..."``. All else counts as text."""
    found, at = 0, body.find(_MEDIA)
    while at >= 0:
        begins = body.rfind(b'"', max(0, at - _MAX_TYPE_BYTES), at)
        ends = body.find(b'"', at)
        ends = len(body) if ends < 0 else ends
        if begins >= 0 and body.startswith(b"data:", begins + 1):
            found += ends - begins - 1
        at = body.find(_MEDIA, ends)
    return found
