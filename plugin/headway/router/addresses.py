"""The addresses of servers, as ``--instances`` gives them: URLs with commas, each with a weight where it has one.

http://10.0.0.1:8000,http://10.0.0.2:8000=2
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Final
from urllib.parse import urlsplit

from headway.errors import HeadwayError

MAX_INSTANCES: Final = 256


@dataclass(frozen=True, slots=True)
class Address:
    """One instance: its name in metrics and logs, its base URL, and its weight against the others."""

    name: str
    url: str
    weight: float = 1.0


def read_addresses(words: Iterable[str], option: str = "--instances") -> list[Address]:
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


def _address(text: str, option: str) -> Address:
    url, _, weight_text = text.partition("=")
    url = url.rstrip("/")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _wrong(text, option) from None
    plain = parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment)
    if not plain or parts.username is not None or parts.password is not None:
        raise _wrong(text, option)
    return Address(
        f"{parts.hostname}:{port or (443 if parts.scheme == 'https' else 80)}", url, _weight(weight_text, option)
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
