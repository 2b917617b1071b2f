"""The fields of a JSON body that Headway reads, decoded in one pass.

msgspec steps over every other field without building an object, and leaves long values as the bytes they are. What it
refuses and Python's parser accepts (NaN, a lone surrogate, a byte order mark, another encoding) is parsed as vLLM
parses it. Of a repeated key the last one counts, in both. All of it is linear in the bytes.

vLLM's models convert: ``"n": "8"`` and ``"n": 8.0`` mean 8, ``"stream": "yes"`` means true. So does this.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, get_type_hints

import msgspec
from msgspec import Raw

_ABSENT: Final = Raw()
_REFUSED: Final = (msgspec.MsgspecError, ValueError, RecursionError)
_TRUE_WORDS: Final = frozenset({"true", "1", "yes", "on", "t", "y"})

#: A list whose first element is a number: token ids, which are one prompt.
_IDS = re.compile(rb"\s*\[\s*[-0-9tf]")
#: A list whose first element is an object: the turns of one conversation.
_TURNS = re.compile(rb"\s*\[\s*\{")
#: A list whose first element is a list: conversations of a batch, or several lists of token ids.
_LISTS = re.compile(rb"\s*\[\s*\[")


class RequestFields(msgspec.Struct):
    """The fields of one body, or of the ``sampling_params`` in it; those it lacks are None or empty."""

    stream: Any = None
    background: Any = None
    service_tier: Any = None
    n: Any = None
    best_of: Any = None
    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None
    logprobs: Any = None
    top_logprobs: Any = None
    prompt_logprobs: Any = None
    priority: Raw = _ABSENT
    n_predict: Raw = _ABSENT
    prompt: Raw = _ABSENT
    prompt_embeds: Raw = _ABSENT
    messages: Raw = _ABSENT
    input: Raw = _ABSENT
    inputs: Raw = _ABSENT
    texts: Raw = _ABSENT
    images: Raw = _ABSENT
    queries: Raw = _ABSENT
    documents: Raw = _ABSENT
    items: Raw = _ABSENT
    questions: Raw = _ABSENT
    text_1: Raw = _ABSENT
    text_2: Raw = _ABSENT
    data_1: Raw = _ABSENT
    data_2: Raw = _ABSENT
    stop: Raw = _ABSENT
    stop_sequences: Raw = _ABSENT
    stop_token_ids: Raw = _ABSENT
    bad_words: Raw = _ABSENT
    logprob_token_ids: Raw = _ABSENT
    allowed_token_ids: Raw = _ABSENT
    repetition_detection: Raw = _ABSENT
    logit_bias: Raw = _ABSENT
    tools: Raw = _ABSENT
    structured_outputs: Raw = _ABSENT
    response_format: Raw = _ABSENT
    text: Raw = _ABSENT
    output_config: Raw = _ABSENT
    kv_transfer_params: Raw = _ABSENT
    ec_transfer_params: Raw = _ABSENT
    sampling_params: Raw = _ABSENT


NO_FIELDS: Final = RequestFields()
#: The fields that may hold several prompts, on any route.
PROMPTS: Final = (
    "prompt", "prompt_embeds", "inputs", "texts", "images", "queries", "documents", "items", "questions", "text_1",
    "text_2", "data_1", "data_2",
)  # fmt: skip
#: The fields that hold a conversation, or several.
CONVERSATIONS: Final = ("messages", "input")

_PROMPT_FIELDS = frozenset(PROMPTS + CONVERSATIONS)
_UNDECODED = frozenset(name for name, kind in get_type_hints(RequestFields).items() if kind is Raw)
_FIELDS = msgspec.json.Decoder(RequestFields)
_LIST = msgspec.json.Decoder(list[Raw])
_OBJECT = msgspec.json.Decoder(dict[str, Raw])


def read_fields(body: bytes | Raw) -> RequestFields:
    """The fields of a JSON object; none of anything else, which vLLM refuses."""
    try:
        return _FIELDS.decode(body)
    except _REFUSED:
        return _as_vllm_parses(bytes(body))


def whole_number(value: object) -> int | None:
    """The number that vLLM would read, rounded up: of a text, too. None for anything else."""
    if isinstance(value, str):
        value = _number_in(value)
    if isinstance(value, float):
        return math.ceil(value) if math.isfinite(value) else None
    return value if isinstance(value, int) else None


def is_true(value: object) -> bool:
    """Whether vLLM would read true."""
    return value.strip().lower() in _TRUE_WORDS if isinstance(value, str) and len(value) < 10 else value == 1


def present(fields: RequestFields) -> list[tuple[str, Any]]:
    """The names and values of the fields that the body has."""
    values = zip(RequestFields.__struct_fields__, msgspec.structs.astuple(fields), strict=True)
    return [(name, value) for name, value in values if value is not None and value is not _ABSENT]


def count(raw: Raw) -> int:
    """The elements of a list, or the members of an object; 1 for another value, 0 for none and for null."""
    kind = bytes(memoryview(raw)[:1])
    try:
        if kind == b"[":
            return len(_LIST.decode(raw))
        if kind == b"{":
            return len(_OBJECT.decode(raw))
    except _REFUSED:
        return len(_parsed(bytes(raw)) or ())
    return 0 if kind in (b"", b"n") else 1


def member(raw: Raw, name: str) -> object:
    """The value of a member of an object; None where there is none, or the value is no object."""
    try:
        value = msgspec.json.decode(raw)
    except _REFUSED:
        value = _parsed(bytes(raw))
    return value.get(name) if isinstance(value, dict) else None


def count_prompts(raw: Raw) -> int:
    """The texts, lists of token ids or tensors in a field; one list of token ids alone is one."""
    if _IDS.match(raw):
        return 1
    return 0 if len(raw) <= len('""') else count(raw)


def count_conversations(raw: Raw) -> int:
    """The same for a field that holds a conversation: its turns are one prompt."""
    return 1 if is_conversation(raw) else count_prompts(raw)


def is_conversation(raw: Raw) -> bool:
    """Whether it is a list of turns."""
    return _TURNS.match(raw) is not None


def is_list_of_lists(raw: Raw) -> bool:
    """Whether the first element of a list is a list: the conversations of a batch, or several lists of token ids."""
    return _LISTS.match(raw) is not None


def _as_vllm_parses(body: bytes) -> RequestFields:
    value = _parsed(body)
    if not isinstance(value, dict):
        return NO_FIELDS
    found = {name: value[name] for name in RequestFields.__struct_fields__ if name in value}
    for name in _UNDECODED & found.keys():
        found[name] = _raw(_outline(found[name]) if name in _PROMPT_FIELDS else found[name])
    return RequestFields(**found)


def _raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def _outline(prompts: Any) -> Any:
    """The number and the kind of prompts, without their text."""
    if isinstance(prompts, list):
        ids = prompts and isinstance(prompts[0], int)
        return [0] if ids else [type(one)() if isinstance(one, list | dict) else "" for one in prompts]
    return prompts and "text" if isinstance(prompts, str) else prompts


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _number_in(text: str) -> int | float | None:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return None
