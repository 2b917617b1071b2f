"""The addresses of the instances, as an operator writes them."""

from __future__ import annotations

import pytest

from headway.errors import HeadwayError
from headway.router.addresses import MAX_INSTANCES, Address, read_addresses


def test_urls_with_and_without_a_weight() -> None:
    """In any number of words, with blanks and a slash at the end."""
    found = read_addresses(["http://a:8000/, https://b=2", "http://[::1]:9=0.5,"])
    assert found == [
        Address("a:8000", "http://a:8000"),
        Address("b:443", "https://b", 2.0),
        Address("::1:9", "http://[::1]:9", 0.5),
    ]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["a:8000"], "a:8000"),
        (["ftp://a"], "ftp://a"),
        (["http://"], "http://"),
        (["http://a:b"], "http://a:b"),
        (["http://me:secret@a"], "needed"),
        (["http://a?x"], "needed"),
        (["http://a=0"], "above 0"),
        (["http://a=inf"], "above 0"),
        (["http://a=two"], "'two'"),
        (["http://a,http://a:80"], "twice"),
        ([" , "], "at least one"),
        ([f"http://a:{port}" for port in range(1, MAX_INSTANCES + 2)], "at most"),
    ],
)
def test_what_is_wrong_is_named(words: list[str], names: str) -> None:
    """In one line."""
    with pytest.raises(HeadwayError) as caught:
        read_addresses(words)
    assert names in str(caught.value)
    assert "\n" not in str(caught.value)
