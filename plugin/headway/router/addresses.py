"""The addresses of servers, as ``--instances`` gives them: URLs with commas, each with a weight where it has one.

http://10.0.0.1:8000,http://10.0.0.2:8000=2,http://10.0.0.3:8000=@realtime

Classes after a weight, with a plus between them, are those whose requests the instance is kept for (``routing``).
``dns+http://NAME:8000`` stands for every address that this DNS name has, whenever it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Final
from urllib.parse import urlsplit

from headway.errors import HeadwayError

MAX_INSTANCES: Final = 256
_DNS: Final = "dns+http://"
_HTTP_PORT: Final = 80
_OPTION: Final = "--instances"


@dataclass(frozen=True, slots=True)
class Address:
    """An instance's name in metrics and logs, its base URL, its weight against the others, and the classes that it is
    kept for.
    """

    name: str
    url: str
    weight: float = 1.0
    classes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class DnsName:
    """A DNS name each of whose addresses is an instance, with this port, this weight and these classes."""

    host: str
    port: int
    weight: float = 1.0
    classes: frozenset[str] = frozenset()

    def address(self, ip: str) -> Address:
        """The instance at one of its addresses."""
        place = f"[{ip}]" if ":" in ip else ip
        return Address(f"{ip}:{self.port}", f"http://{place}:{self.port}", self.weight, self.classes)


def read_instances(words: Iterable[str]) -> tuple[list[Address], list[DnsName]]:
    """The addresses in the words of ``--instances``, and its DNS names. Raises HeadwayError on a wrong one."""
    texts = [part.strip() for word in words for part in word.split(",") if part.strip()]
    names = [text for text in texts if text.startswith(_DNS)]
    fixed = [text for text in texts if not text.startswith(_DNS)]
    return read_addresses(fixed) if fixed or not names else [], [_dns_name(name) for name in names]


def read_addresses(words: Iterable[str], option: str = _OPTION) -> list[Address]:
    """The addresses in the words of an option, in their order. Raises HeadwayError with one line on the wrong one."""
    found: dict[str, Address] = {}
    for text in (part.strip() for word in words for part in word.split(",")):
        if not text:
            continue
        one = _address(text, option)
        if one.name in found:
            raise HeadwayError(f"{option}: {one.url} stands there twice")
        found[one.name] = one
    if not found:
        raise HeadwayError(f"{option}: at least one URL is needed, such as http://127.0.0.1:8001")
    if len(found) > MAX_INSTANCES:
        raise HeadwayError(f"{option}: {len(found)} URLs, and at most {MAX_INSTANCES} are possible")
    return list(found.values())


def _dns_name(text: str) -> DnsName:
    try:
        one = _address(text.removeprefix("dns+"), _OPTION)
    except HeadwayError:
        raise _wrong(text, _OPTION) from None
    parts = urlsplit(one.url)
    if parts.path:
        raise HeadwayError(f"{_OPTION}: a DNS name has no path, as in dns+http://NAME:8000, not {text[:80]!r}")
    assert parts.hostname is not None, "the text was read as an address"
    return DnsName(parts.hostname, parts.port or _HTTP_PORT, one.weight, one.classes)


def _address(text: str, option: str) -> Address:
    url, _, more = text.partition("=")
    weight_text, _, classes = more.partition("@") if option == _OPTION else (more, "", "")
    url = url.rstrip("/")
    try:
        parts = urlsplit(url)
        port = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError:
        raise _wrong(text, option) from None
    plain = parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment)
    if not plain or parts.username is not None or parts.password is not None:
        raise _wrong(text, option)
    return Address(
        f"{parts.hostname}:{port or (443 if parts.scheme == 'https' else _HTTP_PORT)}",
        url,
        _weight(weight_text, option),
        frozenset(name for name in classes.split("+") if name),
    )


def _weight(text: str, option: str) -> float:
    if not text:
        return 1.0
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not (isfinite(weight) and weight > 0):
        raise HeadwayError(f"{option}: a weight is a number above 0, not {text[:20]!r}")
    return weight


def _wrong(text: str, option: str) -> HeadwayError:
    return HeadwayError(
        f"{option}: a URL such as http://127.0.0.1:8001 or one with =WEIGHT is needed, not {text[:80]!r}"
    )
