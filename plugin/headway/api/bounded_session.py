"""A session whose answers are read whole, within bounds of bytes and of time.

The time-outs of requests hold for each read: a server that sends a byte a second is never late for it.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3.exceptions import HTTPError, ReadTimeoutError

_PIECE_BYTES = 64 * 1024


class AnswerTooLargeError(requests.RequestException):
    """The answer is larger than its bound."""


class BoundedAdapter(HTTPAdapter):
    """Reads the body of every answer, at most ``most_bytes`` and for at most ``within_s`` after the request."""

    def __init__(self, most_bytes: int, within_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._most_bytes = most_bytes
        self._within_s = within_s
        self._clock = clock

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """The answer, with its body. Raises RequestException for one that is too large or too slow as well."""
        until_s = self._clock() + self._within_s
        request.headers["Accept-Encoding"] = "identity"  # what is packed has no bound
        response = super().send(request, True, timeout, verify, cert, proxies)
        raw = response.raw
        try:
            response.raw = io.BytesIO(self._read(raw, until_s))
        except ReadTimeoutError as error:
            raise requests.ReadTimeout(error, request=request) from None
        except (HTTPError, OSError) as error:
            if isinstance(error, requests.RequestException):
                raise
            raise requests.ConnectionError(error, request=request) from None
        finally:
            raw.close()
        return response

    def _read(self, raw: Any, until_s: float) -> bytes:
        body = bytearray()
        while piece := raw.read1(_PIECE_BYTES, decode_content=False):
            body += piece
            if len(body) > self._most_bytes:
                raise AnswerTooLargeError(f"the answer is larger than {self._most_bytes} bytes")
            if self._clock() > until_s:
                raise requests.ReadTimeout(f"the answer was not whole after {self._within_s:g} s")
        return bytes(body)


class _Bearer(AuthBase):
    """Sets the header itself: a plain header would be replaced by an entry in ~/.netrc."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def bounded_session(most_bytes: int, within_s: float, token: str | None = None) -> requests.Session:
    """A session in which every answer has these bounds, and every request the token.

    With a token no redirect may be followed: pass ``allow_redirects=False``.
    """
    session = requests.Session()
    session.auth = None if token is None else _Bearer(token)
    for scheme in ("http://", "https://"):
        session.mount(scheme, BoundedAdapter(most_bytes, within_s))
    return session
