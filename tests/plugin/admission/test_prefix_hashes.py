"""Hashes of the beginnings of a prompt: what has which in common, how much is read, and what they give away."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from headway.admission import prefix_hashes
from headway.admission.prefix_hashes import MAX_TEXT_BYTES, prompt_prefix, text_prefix, token_prefix
from headway_policies.request import PREFIX_TOKENS

TEXT = bytes(range(256)) * 500


@pytest.mark.parametrize(
    ("size_bytes", "hashes"), [(0, 0), (255, 0), (256, 1), (383, 1), (384, 2), (2048, 6), (111_976, 16), (128_000, 16)]
)
def test_a_text_has_a_hash_for_each_length_that_it_reaches(size_bytes: int, hashes: int) -> None:
    """From 64 tokens of four bytes on; never more than 16."""
    found = text_prefix(TEXT[:size_bytes])
    assert len(found) == hashes
    assert found == text_prefix(TEXT)[:hashes]
    assert all(0 <= one < 1 << 64 for one in found)


@pytest.mark.parametrize("at", [0, 255, 256, 1000, 111_975])
def test_texts_have_in_common_what_comes_before_their_first_difference(at: int) -> None:
    """One byte changes all hashes from there on, and none before."""
    other = TEXT[:at] + bytes([TEXT[at] ^ 1]) + TEXT[at + 1 :]
    same = [one == another for one, another in zip(text_prefix(TEXT), text_prefix(other), strict=True)]
    assert same == [4 * tokens <= at for tokens in PREFIX_TOKENS]


def test_what_is_beyond_the_longest_beginning_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a text or a list of ids is: the bytes that are hashed are bounded."""
    assert text_prefix(TEXT) == text_prefix(TEXT[:MAX_TEXT_BYTES] + b"other")
    read: list[int] = []
    blake2b = prefix_hashes.blake2b

    class Counted:
        def __init__(self, *arguments: Any, **options: Any) -> None:
            self._digest = blake2b(*arguments, **options)
            self.digest = self._digest.digest

        def update(self, content: memoryview) -> None:
            read.append(len(content))
            self._digest.update(content)

    monkeypatch.setattr(prefix_hashes, "blake2b", Counted)
    text_prefix(b"x" * 5_000_000)
    assert sum(read) == MAX_TEXT_BYTES == 111_976
    read.clear()
    token_prefix([7] * 1_000_000)
    assert sum(read) == 8 * PREFIX_TOKENS[-1]
    assert len(token_prefix([7] * PREFIX_TOKENS[-1] + ["no id"])) == 16  # type: ignore[list-item]  # is never read


def test_token_ids_count_exactly() -> None:
    """64 ids are the first beginning; a list and a tuple are the same, a text of the same bytes is not."""
    ids = list(range(200))
    assert [len(token_prefix(ids[:length])) for length in (63, 64, 96, 200)] == [0, 1, 2, 3]
    assert token_prefix(tuple(ids)) == token_prefix(ids)
    assert token_prefix([*ids[:100], 9])[:2] == token_prefix(ids)[:2]
    assert not set(token_prefix([0] * 64)) & set(text_prefix(b"\0" * 512))


@pytest.mark.parametrize("ids", [["a"] * 99, [1.5] * 99, [1 << 70] * 99, [None] * 99])
def test_ids_that_are_none_have_no_hash(ids: list[Any]) -> None:
    """The engine refuses them; here they match nothing."""
    assert token_prefix(ids) == ()


def test_a_prompt_in_any_form_that_an_engine_takes() -> None:
    """Ids alone, in a mapping or as an attribute are the same; so are a text and a mapping with it."""
    ids, text = list(range(100)), "a long text " * 40
    assert prompt_prefix(ids) == prompt_prefix({"prompt_token_ids": ids}) == token_prefix(ids)
    assert prompt_prefix(SimpleNamespace(prompt_token_ids=ids)) == token_prefix(ids)
    assert prompt_prefix(text) == prompt_prefix({"prompt": text}) == text_prefix(text.encode())
    assert prompt_prefix({"prompt": text, "prompt_token_ids": ids}) == token_prefix(ids)
    assert prompt_prefix("\ud800" * 500)
    assert [prompt_prefix(one) for one in (None, 7, {}, {"prompt": None}, object())] == [()] * 5


def test_prompts_that_are_kept_apart_have_nothing_in_common() -> None:
    """Another model, the same text: another prefix."""
    assert not set(text_prefix(TEXT, b"one")) & set(text_prefix(TEXT, b"other"))


def test_the_key_is_that_of_the_process() -> None:
    """Two processes have no hash in common: nobody can prepare texts that collide, or tell a text by its hash."""
    program = "from headway.admission.prefix_hashes import text_prefix; print(text_prefix(b'x' * 300))"
    printed = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout
        for _ in range(2)
    }
    assert len(printed | {f"{text_prefix(b'x' * 300)}\n"}) == 3
