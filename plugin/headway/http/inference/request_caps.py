"""The caps of one request, checked before it is queued and before its prompt is rendered.

    sequences     n, best_of                                             HEADWAY_MAX_SEQUENCES
    prompts       elements of prompt, input, texts, documents, ...       HEADWAY_MAX_PROMPTS
    output        max_tokens, max_completion_tokens, max_output_tokens   HEADWAY_MAX_OUTPUT_TOKENS
    logprobs      logprobs, top_logprobs, prompt_logprobs (-1: a whole vocabulary), logprob_token_ids
                                                                         HEADWAY_MAX_LOGPROBS
    stops         elements of stop, stop_token_ids, bad_words            HEADWAY_MAX_STOPS
    logit_bias    its entries                                            HEADWAY_MAX_LOGIT_BIAS
    grammar       bytes of response_format, structured_outputs, ...      HEADWAY_MAX_GRAMMAR_BYTES
    tools         elements of tools                                      HEADWAY_MAX_TOOLS
    listed        the alternatives to a token times the answers          MAX_LISTED
    allowed       elements of allowed_token_ids                          MAX_ALLOWED_TOKENS
    repetition    max_pattern_size, min_count of repetition_detection    MAX_REPEATED_TOKENS, MAX_REPEATED_TIMES
    items         turns in input, of /v1/responses                       MAX_ITEMS

A tenant's own caps bound prompts x n as well: no more than the larger of its caps of sequences and prompts. For the
server HEADWAY_MAX_REQUEST_SEATS does. The same parameters inside ``sampling_params`` have the same caps. A request
beyond a cap is refused with 400, bytes with 413, and the error names the parameter. A value of a wrong type, or below
the least one allowed, is left to vLLM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from msgspec import Raw

from headway.api_errors import BadRequest
from headway.openai.asked import Asked
from headway.openai.fields import (
    LIMITS,
    PROMPTS,
    Fields,
    count,
    count_conversations,
    count_prompts,
    is_conversation,
    read_fields,
    whole_number,
)
from headway.settings import Environment
from headway_policies.entitlement import RequestCaps

#: All stop strings or words of one list; each is searched for in every token.
MAX_STOP_BYTES: Final = 32 * 1024
#: Nesting of a schema: twice the depth of OpenAI's ten levels with the objects around them.
MAX_SCHEMA_DEPTH: Final = 48
#: The bound of a connector's parameters: a block id for every 16 tokens of a million.
MAX_TRANSFER_BYTES: Final = 1024 * 1024
#: Alternatives that are listed at one step of all answers: the front end makes an object of each, 10 us on its loop.
MAX_LISTED: Final = 2048
#: Items of a conversation in ``input``: vLLM takes 0.1 ms for each, on its event loop.
MAX_ITEMS: Final = 2048
#: Twice the largest vocabulary in use.
MAX_ALLOWED_TOKENS: Final = 524_288
#: For each token the engine compares patterns of every size, each as many times as it has to be repeated: the cost is
#: the square of one bound times the other.
MAX_REPEATED_TOKENS: Final = 64
MAX_REPEATED_TIMES: Final = 16
#: What -1 means for log probabilities; no vocabulary is larger.
WHOLE_VOCABULARY: Final = 1_000_000

_ROUND = bytes.maketrans(b"[{]}", b"(())")
_NO_BRACKET = bytes(byte for byte in range(256) if byte not in b"[{]}")


def caps_from_environment(environment: Mapping[str, str] | None = None) -> RequestCaps:
    """The caps of every tenant. Raises HeadwayError in one line that names the variable."""
    found = Environment(environment)
    return RequestCaps(
        sequences=found.max_sequences,
        prompts=found.max_prompts,
        output_tokens=found.max_output_tokens,
        logprobs=found.max_logprobs,
        stops=found.max_stops,
        logit_bias=found.max_logit_bias,
        grammar_bytes=found.max_grammar_bytes,
        tools=found.max_tools,
    )


USUAL_CAPS: Final = caps_from_environment({})


@lru_cache(maxsize=1024)
def lowered(caps: RequestCaps, tenant_caps: RequestCaps) -> RequestCaps:
    """The caps of the server, or the lower ones of a tenant."""
    return caps.lowered_by(tenant_caps)


def check_caps(asked: Asked, caps: RequestCaps) -> None:
    """Raises BadRequest for the first parameter over its cap."""
    for prefix, fields in (("", asked.fields), ("sampling_params.", asked.sampling)):
        for name, raw in fields.items():
            if asked.route.path.endswith(_OF_ONE_PROMPT.get(name, ())):
                continue
            if name in _CHECKS:
                check, cap = _CHECKS[name]
                check(prefix + name, raw, None if cap is None else getattr(caps, cap))
        _check_listed(prefix, fields)


def check_width(asked: Asked, caps: RequestCaps) -> None:
    """Raises BadRequest where a request asks for more sequences in all than its tenant's own caps allow.

    The bound is the cap of sequences; the cap of prompts, where that is larger: with one answer each they are as many.
    """
    if caps.sequences is None:
        return
    most = max(caps.sequences, caps.prompts or 0)
    sequences = asked.prompts * asked.answers
    if sequences > most:
        wide = f"{asked.prompts} prompts with {asked.answers} answers each are {sequences} sequences"
        text = f"{wide}; at most {most} are allowed in one request: send it in parts"
        raise BadRequest(HTTPStatus.BAD_REQUEST, text, "parameter_too_large", param="prompt")


def _check_number(name: str, value: object, most: int | None) -> None:
    number = whole_number(value)
    if number is not None and most is not None and number > most:
        raise _too_large(name, f"at most {most} is allowed here")


def _check_logprobs(name: str, raw: Raw, most: int | None) -> None:
    _check_number(name, _listed(raw), most)


def _check_listed(prefix: str, fields: Fields) -> None:
    """Check the alternatives of several answers to a prompt at each step; a single answer has its own cap."""
    answers = max(whole_number(fields.get("n")) or 1, whole_number(fields.get("best_of")) or 1)
    if answers <= 1:
        return
    listed = {
        "logprobs": _listed(fields.get("logprobs")),
        "top_logprobs": _listed(fields.get("top_logprobs")),
        "logprob_token_ids": count(fields.get("logprob_token_ids", Raw())),
    }
    name = max(listed, key=listed.__getitem__)
    most = MAX_LISTED // answers
    if listed[name] > most:
        raise _too_large(prefix + name, f"at most {most} is allowed here with so many answers")


def _listed(value: object) -> int:
    number = whole_number(value) or 0
    return WHOLE_VOCABULARY if number == -1 else number


def _check_allowed(name: str, raw: Raw, _: int | None) -> None:
    _check_count(name, raw, MAX_ALLOWED_TOKENS, count)


def _check_repetition(name: str, raw: Raw, _: int | None) -> None:
    members = read_fields(raw)
    _check_number(f"{name}.max_pattern_size", members.get("max_pattern_size"), MAX_REPEATED_TOKENS)
    _check_number(f"{name}.min_count", members.get("min_count"), MAX_REPEATED_TIMES)


def _check_elements(name: str, raw: Raw, most: int | None) -> None:
    _check_count(name, raw, most, count)


def _check_stops(name: str, raw: Raw, most: int | None) -> None:
    _check_bytes(name, raw, MAX_STOP_BYTES)
    _check_count(name, raw, most, count)


def _check_prompts(name: str, raw: Raw, most: int | None) -> None:
    _check_count(name, raw, most, count_prompts)


def _check_conversations(name: str, raw: Raw, most: int | None) -> None:
    _check_count(name, raw, most, count_conversations)


def _check_input(name: str, raw: Raw, most: int | None) -> None:
    if is_conversation(raw):
        _check_count(name, raw, MAX_ITEMS, count)
    else:
        _check_count(name, raw, most, count_prompts)


def _check_grammar(name: str, raw: Raw, most_bytes: int | None) -> None:
    if bytes(memoryview(raw)[:1]) != b"{":  # on other routes `text` is a text
        return
    _check_bytes(name, raw, most_bytes)
    if _is_too_deep(bytes(raw)):
        raise _too_large(name, f"at most {MAX_SCHEMA_DEPTH} levels are allowed here", "schema_too_deep")


def _check_transfer(name: str, raw: Raw, _: int | None) -> None:
    _check_bytes(name, raw, MAX_TRANSFER_BYTES)


def _check_count(name: str, raw: Raw, most: int | None, counted: Callable[[Raw], int]) -> None:
    if most is not None and len(raw) // 2 > most and counted(raw) > most:  # an element has two bytes at least
        raise _too_large(name, f"at most {most} elements are allowed here")


def _check_bytes(name: str, raw: Raw, most: int | None) -> None:
    if most is not None and len(raw) > most:
        text = f"{name}: at most {most} bytes are allowed here, not {len(raw)}"
        raise BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text, "parameter_too_long", param=name)


def _is_too_deep(text: bytes) -> bool:
    """Whether objects and lists of valid JSON are nested too deep: each step removes the innermost level."""
    if text.count(b"{") + text.count(b"[") <= MAX_SCHEMA_DEPTH:
        return False
    bare = b"".join(text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    marks = bare.translate(_ROUND, _NO_BRACKET)
    for _ in range(MAX_SCHEMA_DEPTH):
        if not marks:
            return False
        marks = marks.replace(b"()", b"")
    return bool(marks)


def _too_large(name: str, most: str, code: str = "parameter_too_large") -> BadRequest:
    return BadRequest(HTTPStatus.BAD_REQUEST, f"{name}: {most}", code, param=name)


#: Fields that may hold several prompts, on the routes where they are parts of one.
_OF_ONE_PROMPT: Final[Mapping[str, tuple[str, ...]]] = {
    "documents": ("/chat/completions", "/chat"), "images": ("/systemone", "/decisions"),
}  # fmt: skip
#: The bound on each field: the check, and the cap it is given.
_CHECKS: Final[Mapping[str, tuple[Callable[[str, Raw, int | None], None], str | None]]] = {
    **dict.fromkeys(("n", "best_of"), (_check_number, "sequences")),
    **dict.fromkeys(LIMITS, (_check_number, "output_tokens")),
    **dict.fromkeys(("logprobs", "top_logprobs", "prompt_logprobs"), (_check_logprobs, "logprobs")),
    "logprob_token_ids": (_check_elements, "logprobs"),
    **dict.fromkeys(("stop", "stop_sequences", "stop_token_ids", "bad_words"), (_check_stops, "stops")),
    "logit_bias": (_check_elements, "logit_bias"),
    "allowed_token_ids": (_check_allowed, None),
    "repetition_detection": (_check_repetition, None),
    "tools": (_check_elements, "tools"),
    **dict.fromkeys(
        ("response_format", "structured_outputs", "text", "output_config"), (_check_grammar, "grammar_bytes")
    ),
    **dict.fromkeys(("kv_transfer_params", "ec_transfer_params"), (_check_transfer, None)),
    **dict.fromkeys(PROMPTS, (_check_prompts, "prompts")),
    "messages": (_check_conversations, "prompts"),
    "input": (_check_input, "prompts"),
}
