"""The lines of batch files: which answers are final, and how long a line waits that comes again."""

from __future__ import annotations

import pytest

from headway.openai.batch_file import LineError, again_after_s, read_line


@pytest.mark.parametrize(
    ("status", "headers", "tries", "wait_s"),
    [
        (200, {}, 0, None), (400, {"retry-after": "1"}, 0, None), (429, {"retry-after": "7"}, 99, 7.0),
        (503, {"retry-after": "0"}, 0, 0.2), (429, {"retry-after": "99999"}, 0, 60.0), (429, {}, 0, 1.0),
        (429, {"retry-after": "9" * 400}, 0, 60.0), (429, {"retry-after": "Wed, 21 Oct"}, 0, 1.0),
        (429, {"retry-after": "7", "x-should-retry": "false"}, 0, None),
        (429, {"retry-after": "35200", "x-should-retry": "false", "x-headway-reason": "budget"}, 99, 60.0),
        (429, {"x-should-retry": "false", "x-headway-reason": "budget"}, 0, None),
        (500, {}, 0, 1.0), (502, {}, 2, 4.0), (500, {}, 3, None),
    ],
    ids=["good", "wrong", "refused", "at once", "too long", "unsaid", "far too long", "a date", "told not to",
         "a used budget", "more than a budget", "an error", "an error again", "an error for good"],
)  # fmt: skip
def test_a_refusal_comes_again_until_it_gets_through(
    status: int, headers: dict[str, str], tries: int, wait_s: float | None
) -> None:
    """Another error of the server comes a few times, anything else never."""
    assert again_after_s(status, headers, tries) == wait_s


def test_a_byte_order_mark_is_no_part_of_a_line() -> None:
    """Editors write it where a file begins; files put one behind the other have several."""
    line = b'{"custom_id":"a","url":"/v1/embeddings","body":{}}'
    assert read_line(b"\xef\xbb\xbf" + line) == read_line(line)
    with pytest.raises(LineError):
        read_line(b"\xef\xbb" + line)
