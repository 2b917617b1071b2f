"""The fields of a body: what msgspec reads, and what only Python's parser takes, mean the same as to vLLM."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from headway.openai.fields import (
    count,
    count_conversations,
    count_prompts,
    is_list_of_lists,
    is_true,
    read_fields,
    value_of,
    whole_number,
    written,
)


def raw(value: Any) -> Raw:
    """A field whose value is this."""
    return read_fields(json.dumps({"prompt": value}).encode())["prompt"]


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"1", b'"text"', b"null", b"{", b'{"n": 2', b"not JSON", b'{"n": 2} x', b"[" * 100_000, b"\xff\xfe"],
)
def test_what_is_no_object_has_no_fields(body: bytes) -> None:
    """vLLM answers with the error."""
    assert read_fields(body) == {}


@pytest.mark.parametrize(
    "body",
    [
        b'{"n": 1, "n": 2, "prompt": "a", "prompt": ["b", "c"]}',
        b'\xef\xbb\xbf{"n": 2, "prompt": ["b", "c"]}',
        b'{"n": 2, "temperature": NaN, "prompt": ["b", "c"]}',
        b'{"n": 2, "temperature": 1e999, "top_p": -Infinity, "prompt": ["b", "c"]}',
        b'{"n": 2, "user": "\\ud800", "\\udfff": 1, "prompt": ["\\ud800", "c"]}',
        b'{"n": 2, "prompt": ["\xed\xa0\x80", "c"]}',
        b'{"\\u006e": 2, "pr\\u006fmpt": ["b", "c"]}',
        b' \n\t{ "seed" : 9223372036854775808 , "n":2,"prompt"\n:\t[ "b" , "c" ] } \r\n',
        b'{"seed": ' + b"9" * 4000 + b', "n": 2, "prompt": ["b", "c"]}',
        json.dumps({"n": 2, "prompt": ["b", "c"]}).encode("utf-16"),
        json.dumps({"n": 2, "prompt": ["b", "c"]}).encode("utf-32-be"),
        b'{"extra_body": {"n": 9, "prompt": "z"}, "n": 2, "prompt": ["b", "c"]}',
    ],
)
def test_every_body_that_vllm_takes_has_the_fields_that_vllm_reads(body: bytes) -> None:
    """Repeated keys, marks, encodings, escapes and numbers that are no JSON; nested keys are other fields."""
    parsed = json.loads(body)
    fields = read_fields(body)
    assert value_of(fields["n"]) == parsed["n"] == 2
    assert count_prompts(fields["prompt"]) == len(parsed["prompt"]) == 2
    assert "messages" not in fields
    assert read_fields(written(fields)) == fields


KEYS = st.sampled_from(["n", "stop", "prompt", "max_tokens", "other", "N", "\ud800", "messages"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(["\ud800", "\x00"])
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))


@given(st.lists(st.tuples(KEYS, VALUES), max_size=6), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]))
def test_fields_are_what_pythons_parser_finds(pairs: list[tuple[str, Any]], encoding: str) -> None:
    """Whatever is sent, with repeated keys: the same values, and the same numbers of elements."""
    text = "{" + ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in pairs) + "}"
    fields, parsed = read_fields(text.encode(encoding)), json.loads(text)
    assert fields.keys() == parsed.keys()
    assert {name: repr(value_of(raw)) for name, raw in fields.items()} == {
        name: repr(value) for name, value in parsed.items()
    }
    for name in ("prompt", "messages", "stop"):
        value = parsed.get(name)
        expected = len(value) if isinstance(value, list | dict) else int(value is not None)
        ids = name != "stop" and isinstance(value, list) and bool(value) and isinstance(value[0], int | float)
        found = count(fields.get(name, Raw()))
        assert found == expected or (ids and found == 1)


def test_a_long_value_is_left_as_bytes_of_the_body() -> None:
    """Nothing is built of a prompt."""
    body = json.dumps({"prompt": "x" * 1000, "messages": [{"role": "user"}]}).encode()
    fields = read_fields(body)
    assert (len(fields["prompt"]), bytes(fields["messages"])) == (1002, b'[{"role": "user"}]')


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, 7),
        (-1, -1),
        (2**63, 2**63),
        (7.0, 7),
        (7.2, 8),
        ("7", 7),
        (" 7 ", 7),
        ("7.0", 7),
        ("1_000", 1000),
        ("+7", 7),
        ("0" * 5000 + "7", 7),
        ("\u0667", 7),
        ("1e3", 1000),
        (True, 1),
        (math.nan, None),
        (math.inf, None),
        ("nan", None),
        ("9" * 5000, None),
        ("seven", None),
        ("", None),
        (None, None),
        ([7], None),
        ({"n": 7}, None),
    ],
)
def test_a_number_is_read_as_vllm_converts_it(value: object, expected: int | None) -> None:
    """A text is a number, too; what cannot be one has none."""
    assert whole_number(value) == expected


@pytest.mark.parametrize("value", [True, 1, 1.0, "true", "True", "1", "yes", "on", "t", "y", " YES "])
def test_true_in_other_words(value: object) -> None:
    """vLLM's models take them."""
    assert is_true(value)


@pytest.mark.parametrize("value", [False, 0, None, "no", "false", "", "maybe", [True], {}, 2, "true" * 100])
def test_everything_else_is_not_true(value: object) -> None:
    """vLLM refuses such values, too."""
    assert not is_true(value)


@pytest.mark.parametrize(
    ("value", "elements", "prompts", "conversations"),
    [
        (None, 0, 0, 0),
        ("", 1, 0, 0),
        ("text, [with], {signs}", 1, 1, 1),
        ([], 0, 0, 0),
        (["a", "b", "c,d"], 3, 3, 3),
        ([1, 2, 3], 3, 1, 1),
        ([-1, 2], 2, 1, 1),
        ([[1, 2], [3]], 2, 2, 2),
        ([{"role": "user"}, {"role": "assistant"}], 2, 2, 1),
        ([[{"role": "user"}], [{"role": "user"}]], 2, 2, 2),
        ({"a": 1, "b": [1, 2]}, 2, 2, 2),
    ],
)
def test_elements_and_prompts(value: object, elements: int, prompts: int, conversations: int) -> None:
    """Token ids alone are one prompt, and so are the turns of a conversation."""
    found = raw(value)
    assert (count(found), count_prompts(found), count_conversations(found)) == (elements, prompts, conversations)


def test_an_absent_field_has_no_elements() -> None:
    """Nor is it a list."""
    absent = Raw()
    assert (count(absent), count_prompts(absent), count_conversations(absent)) == (0, 0, 0)
    assert not is_list_of_lists(absent)


def test_members_with_a_name_that_msgspec_refuses_are_counted() -> None:
    """A lone surrogate in a key."""
    assert count(Raw(b'{"\\ud800": 1, "b": 2}')) == 2


def test_blanks_around_values_change_nothing() -> None:
    """Bytes of a field begin with its value."""
    fields = read_fields(b'{"prompt" :  \n [ 1 , 2 ] , "stop":\t{ } , "messages": [ [ ] ] }')
    assert bytes(fields["prompt"]).startswith(b"[")
    assert count_prompts(fields["prompt"]) == 1
    assert bytes(fields["stop"]).startswith(b"{")
    assert is_list_of_lists(fields["messages"])


def test_what_is_written_again_has_the_bytes_of_each_value() -> None:
    """Nothing of a value is made anew, in the order of the body, and of a repeated key the last one stays."""
    body = b'{ "a": 1.50, "\\u0062": "\\u00e9", "a":1e400,"\xc3\xa9":[ 1, {} ]}'
    assert written(read_fields(body)) == b'{"a":1e400,"b":"\\u00e9","\\u00e9":[ 1, {} ]}'
