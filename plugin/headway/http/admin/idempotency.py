"""Idempotency keys of orders (draft-ietf-httpapi-idempotency-key-header).

A client names an order by a key. The same key with the same order, within ten minutes, gets the answer of the first
again, and nothing is done; ``Idempotent-Replayed: true`` tells that. With another order it is 422, and while the first
is under way 409 with ``Retry-After``. Keys of different tokens are different keys. An answer with a status from 500 on,
and an order that ended with an error of the server, may be tried again under their key. Memory is bounded: beyond
MAX_KEYS the oldest answer is forgotten.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from headway.api.routes import IDEMPOTENCY_KEY, MAX_KEY_CHARS, REPLAYED
from headway.http.admin.problem import ProblemError, problem_response

MAX_KEYS: Final = 1000
KEPT_S: Final = 600.0

#: The id of the token, and the key.
Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it was given; its ``headers`` are without the length."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def again(self) -> Response:
        """A response of its own for each request: what is outside of the handlers may add to its headers."""
        return Response(self.body, self.status, {**self.headers, REPLAYED: "true"})


@dataclass(slots=True)
class _Order:
    """An order with a key: what it was, until when it is kept, and its answer; None while it is under way."""

    digest: bytes
    ends_s: float
    answer: Answer | None = None


def key_of(request: Request) -> str | None:
    """The key of an order, None without one. Raises ProblemError for one that is no key."""
    sent = request.headers.getlist(IDEMPOTENCY_KEY)
    if not sent:
        return None
    key = sent[0].strip()
    if len(sent) > 1 or not 1 <= len(key) <= MAX_KEY_CHARS or not (key.isascii() and key.isprintable()) or " " in key:
        wanted = f"one of 1 to {MAX_KEY_CHARS} printable ASCII characters without spaces is needed"
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"{IDEMPOTENCY_KEY}: {wanted}.")
    return key


def digest_of(request: Request, body: bytes) -> bytes:
    """What tells one order from another: its method, its path, the revision it was decided on, and its body."""
    found = hashlib.sha256()
    for part in (request.method, request.scope["path"], request.headers.get("if-match", "")):
        found.update(part.encode())
        found.update(b"\0")
    found.update(body)
    return found.digest()


class IdempotencyKeys:
    """The orders of the last minutes that had a key. Call it on the event loop's thread only."""

    def __init__(self) -> None:
        self._orders: OrderedDict[Name, _Order] = OrderedDict()  # the oldest first

    def answered(self, name: Name, digest: bytes, now_s: float) -> Response | None:
        """The answer of the first order of this name. Raises ProblemError: it was another one, or is under way."""
        self._forget_ended(now_s)
        first = self._orders.get(name)
        if first is None:
            return None
        if first.digest != digest:
            detail = f"This {IDEMPOTENCY_KEY} belongs to another order: send a new key with a new order."
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
        if first.answer is None:
            detail = f"The order with this {IDEMPOTENCY_KEY} is under way: send it again to read its answer."
            raise ProblemError(HTTPStatus.CONFLICT, detail, {"Retry-After": "1"})
        return first.answer.again()

    async def first(self, name: Name, digest: bytes, now_s: float, act: Callable[[], Awaitable[Response]]) -> Response:
        """Carry an order out whose name is new, and keep its answer."""
        kept = self._orders[name] = _Order(digest, now_s + KEPT_S)
        try:
            response = await _answered(act)
        except BaseException:  # the server's own error, or its end: nothing is known of the order
            self._forget(name, kept)
            raise
        if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self._forget(name, kept)
        else:
            headers = {key: value for key, value in response.headers.items() if key != "content-length"}
            kept.answer = Answer(response.status_code, headers, bytes(response.body))
            self._bound()
        return response

    def __len__(self) -> int:
        return len(self._orders)

    # ------------------------------------------------------------------ inside

    def _forget(self, name: Name, kept: _Order) -> None:
        if self._orders.get(name) is kept:
            del self._orders[name]

    def _forget_ended(self, now_s: float) -> None:
        while self._orders:
            name, oldest = next(iter(self._orders.items()))
            if oldest.ends_s > now_s:
                return
            del self._orders[name]

    def _bound(self) -> None:
        """Forget the oldest answer; orders that are under way stay, and are few."""
        if len(self._orders) > MAX_KEYS:
            answered = (name for name, one in self._orders.items() if one.answer is not None)
            del self._orders[next(answered)]


async def _answered(act: Callable[[], Awaitable[Response]]) -> Response:
    try:
        return await act()
    except ProblemError as problem:
        return problem_response(problem)
