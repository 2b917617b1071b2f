"""The parsing cost of a JSON body, counted while it arrives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.api_errors import BadRequest
from headway.http.limits import json_shape
from headway.http.limits.json_shape import MAX_BARE_BYTES, MAX_BRACKETS, MAX_COMMAS, MAX_DEPTH, MAX_STRINGS, JsonShape


def counted(*chunks: bytes) -> JsonShape:
    """The shape of a body that comes in these pieces."""
    shape = JsonShape()
    for chunk in chunks:
        shape.feed(chunk)
    shape.close()
    return shape


def structure(value: Any) -> tuple[int, int, int, int]:
    """An oracle that walks the parsed value: brackets, strings, commas, depth."""
    if isinstance(value, str):
        return 0, 1, 0, 0
    if not isinstance(value, dict | list):
        return 0, 0, 0, 0
    inner = [structure(one) for one in (value.values() if isinstance(value, dict) else value)]
    keys = len(value) if isinstance(value, dict) else 0
    brackets, strings, commas = (sum(one[at] for one in inner) for at in range(3))
    own = max(0, len(value) - 1)
    return brackets + 1, strings + keys, commas + own, 1 + max((one[3] for one in inner), default=0)


TEXT = st.text(alphabet=st.sampled_from('"\\{}[],:a\u4e22\n'), max_size=12)
VALUES = st.recursive(
    st.none() | st.integers() | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=20
)


@given(VALUES, st.booleans(), st.integers(1, 7), st.integers(1, 9))
def test_the_counts_are_those_of_the_parsed_value(value: Any, escaped: bool, chunk: int, slice_bytes: int) -> None:
    """However the body is cut, and whatever stands in its strings, which counts for nothing but a string."""
    body = json.dumps(value, ensure_ascii=escaped).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_shape, "_SLICE_BYTES", slice_bytes)
        shape = counted(*(body[at : at + chunk] for at in range(0, len(body), chunk)))
    assert (shape._brackets, shape._quotes // 2, shape._commas) == structure(value)[:3]
    assert shape._depth == 0


HOSTILE = {
    "objects": (b"{},", MAX_BRACKETS * 3 + 3),
    "arrays": (b"[],", MAX_BRACKETS * 3 + 3),
    "open arrays": (b"[", MAX_DEPTH + 1),
    "open objects": (b'{"a":', 5 * MAX_DEPTH + 5),
    "strings": (b'"a",', MAX_STRINGS * 4 + 4),
    "numbers": (b"1,", MAX_COMMAS * 2 + 2),
    "blanks": (b" ", MAX_BARE_BYTES + 1),
    "digits": (b"1", MAX_BARE_BYTES + 1),
}


@pytest.mark.parametrize("shape", HOSTILE)
def test_a_body_of_structure_is_refused_as_soon_as_it_is_too_much(shape: str) -> None:
    """Not before the bound, and at once after it, however long the body will be."""
    unit, least_bytes = HOSTILE[shape]
    chunk = unit * max(1, min(8192, least_bytes // 4) // len(unit))
    counting = JsonShape()
    for _ in range((least_bytes - 1) // len(chunk)):
        counting.feed(chunk)
    with pytest.raises(BadRequest, match="The JSON body has more than the") as caught:
        counting.feed(chunk + chunk)
    assert (caught.value.status, caught.value.code) == (400, "body_too_complex")


def test_no_slice_is_longer_than_its_bound() -> None:
    """A server may hand on megabytes at once: what is made of them in passing stays small."""
    sizes: list[int] = []

    class Spied(JsonShape):
        def _count(self, chunk: bytes) -> None:
            sizes.append(len(chunk))

    Spied().feed(b'"a",' * 100_000)
    assert sum(sizes) == 400_000
    assert max(sizes) <= 64 * 1024


REAL = {
    "a million token ids": {"model": "m", "prompt": [123_456] * 1_000_000},
    "code": {"messages": [{"role": "user", "content": 'f({a: [1, 2], "b": "\\"{}"});\n' * 200_000}]},
    "JSON in a prompt": {"prompt": json.dumps([{"id": 1, "tags": ["a", "b"]}] * 100_000)},
    "escaped Chinese": {"prompt": "\u4e22\u4f60" * 500_000},
    "an image": {"messages": [{"content": [{"image_url": {"url": "data:image/png;base64," + "iVBO" * 5_000_000}}]}]},
    "a long conversation": {"messages": [{"role": "user", "content": "Hello, {}"}] * 4_000},
    "many inputs": {"input": [[1, 2, 3]] * 2048},
    "texts": {"documents": ["a text, with {braces}"] * 30_000},
}


@pytest.mark.parametrize("name", REAL)
def test_what_people_ask_passes(name: str) -> None:
    """A context full of ids, code full of braces, images, conversations."""
    for escaped in (False, True):
        counted(json.dumps(REAL[name], ensure_ascii=escaped).encode())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("cut", [1, 2, 3, 100])
def test_another_encoding_is_refused(encoding: str, cut: int) -> None:
    """RFC 8259: JSON is UTF-8. In another encoding the bytes of a text look like structure, and the reverse."""
    body = "[{}, 1]".encode(encoding)
    with pytest.raises(BadRequest, match="UTF-8") as caught:
        counted(body[:cut], body[cut:])
    assert (caught.value.status, caught.value.code) == (400, "body_not_utf8")


@pytest.mark.parametrize("body", [b"", b"1", b"{}", b"[1]", b"\xef\xbb\xbf{}", b"\xff{", b"not JSON"])
def test_what_is_short_or_no_json_is_not_ours_to_refuse(body: bytes) -> None:
    """vLLM says what is wrong with it."""
    counted(body)
