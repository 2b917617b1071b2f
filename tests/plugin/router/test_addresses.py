"""The addresses of the instances, as an operator writes them."""

from __future__ import annotations

import pytest

from headway.errors import HeadwayError
from headway.router.addresses import MAX_INSTANCES, Address, DnsName, read_addresses, read_instances


def test_urls_with_and_without_a_weight() -> None:
    """In any number of words, with blanks and a slash at the end."""
    found = read_addresses(["http://a:8000/, https://b=2", "http://[::1]:9=0.5,"])
    assert found == [
        Address("a:8000", "http://a:8000"),
        Address("b:443", "https://b", 2.0),
        Address("::1:9", "http://[::1]:9", 0.5),
    ]


def test_an_instance_may_be_kept_for_classes() -> None:
    """After the weight, or without one; each address of a name is kept for those of the name."""
    (fixed,), (name,) = read_instances(["http://a=2@realtime,dns+http://b:1=@realtime+normal"])
    assert (fixed.weight, *fixed.classes) == (2.0, "realtime")
    assert name.address("::1").classes == {"realtime", "normal"}
    with pytest.raises(HeadwayError, match="a weight is a number above 0"):
        read_addresses(["http://a=2@realtime"], "--server")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["a:8000"], "a:8000"),
        (["ftp://a"], "ftp://a"),
        (["http://"], "http://"),
        (["http://a:b"], "http://a:b"),
        (["http://a..b:80"], "http://a..b:80"),
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
    assert str(caught.value).startswith("--instances: ")
    assert "\n" not in str(caught.value)


def test_names_stand_beside_addresses() -> None:
    """Each of their addresses is one more instance."""
    assert read_instances(["dns+http://vllm:8000=2,http://a:1", "dns+http://b"]) == (
        [Address("a:1", "http://a:1")],
        [DnsName("vllm", 8000, 2.0), DnsName("b", 80)],
    )
    assert read_instances(["dns+http://b"]) == ([], [DnsName("b", 80)])
    assert DnsName("b", 80, 2.0).address("10.0.0.1") == Address("10.0.0.1:80", "http://10.0.0.1:80", 2.0)
    assert DnsName("b", 80).address("::1") == read_addresses(["http://[::1]:80"])[0]


@pytest.mark.parametrize("word", ["dns+https://a", "dns+http://", "dns+http://a/v1", "dns+http://a:b", " , "])
def test_what_no_name_can_be_is_named(word: str) -> None:
    """Names are asked for without TLS: a certificate is for the name, and the instances have addresses."""
    with pytest.raises(HeadwayError) as caught:
        read_instances([word])
    assert str(caught.value).startswith("--instances: ")
    assert word.strip(" ,") in str(caught.value)
    assert "\n" not in str(caught.value)
