"""The request as it is forwarded, and the pieces of its response as they come."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from msgspec import Raw, structs

from headway.http.inference import PRIORITY_HEADERS
from headway.openai.asked import NOTHING, Asked
from headway.openai.fields import LIMITS, Fields, value_of, written
from headway.openai.routes import Route
from headway_policies import Usage

Headers = tuple[tuple[str, str], ...]

#: Headers of one connection.
_OF_CONNECTION: Final = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade",
})  # fmt: skip
#: Headers of a request that mean its client or this server, and not the instance.
_NOT_FORWARDED: Final = frozenset({
    "accept-encoding", "authorization", "content-length", "cookie", "expect", "forwarded", "host", "x-api-key",
    "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-headway-priority", "x-real-ip", *PRIORITY_HEADERS,
})  # fmt: skip
#: Of a response; what Headway says of a request it says itself.
NOT_RETURNED: Final = frozenset({
    "date", "server", "x-headway-class", "x-headway-class-asked", "x-headway-preset", "x-headway-queue-ms",
    "x-request-id",
})  # fmt: skip
#: Of this process to a server that it has started itself.
PRIORITY: Final = "x-headway-priority"
#: llama.cpp reads this limit before those, and takes one below 0 for none; others do not know it.
_FIRST_LIMIT: Final = "n_predict"
_FEWEST: Final = "min_tokens"
#: The parameters of a route that takes token ids.
_SAMPLING: Final = "sampling_params"


@dataclass(frozen=True, slots=True)
class Forwarded:
    """The forwarded request: ``target`` is its path with the query, ``headers`` are those that the instance gets.

    ``asked`` are the demands of its body, NOTHING where the body stays as it is.
    """

    method: str
    target: str
    headers: Headers
    body: bytes = b""
    asked: Asked = NOTHING

    def ranked(self, priority: int) -> Forwarded:
        """The same request with the engine's priority of its class, 0 the most urgent, for a server started here."""
        return replace(self, headers=(*self.headers, (PRIORITY, str(priority))))

    def unranked(self) -> Forwarded:
        """The same request without the engine's priority in its body: this server alone ranks requests.

        ``n_predict`` beside another limit is dropped, too, for the other limit is charged. A priority that no engine
        would take for a number stays, for the instance to refuse.
        """
        fields = self.asked.fields
        dropped = {"priority"} if _is_number(value_of(fields.get("priority"))) else set()
        if _FIRST_LIMIT in fields and any(value_of(fields.get(name)) is not None for name in LIMITS):
            dropped.add(_FIRST_LIMIT)
        return self._with({name: raw for name, raw in fields.items() if name not in dropped}) if dropped else self

    def at_most(self, tokens: int) -> Forwarded:
        """The same request with at most this many output tokens, whatever it asks for.

        Unchanged where it has no fields, where its limit is none, or where its route wants one and it has none: that
        is for the instance to refuse.
        """
        asked = self.asked
        if not asked.fields:
            return self
        if not asked.route.sampling:
            limited = _limited(asked.fields, asked.route, tokens)
            return self if limited is None else self._with(limited)
        limited = _limited(asked.sampling, asked.route, tokens)
        if limited is None or not isinstance(value_of(asked.fields.get(_SAMPLING)), dict):
            return self
        return self._with({**asked.fields, _SAMPLING: Raw(written(limited))})

    def _with(self, fields: Fields) -> Forwarded:
        return replace(self, body=written(fields), asked=structs.replace(self.asked, fields=fields))


@dataclass(frozen=True, slots=True)
class CallParams:
    """The request as the gate needs it: ``n`` sequences and the limit of tokens.

    ``stream``: the output comes at once, as a stream or because it has no tokens. ``timed``: its tokens can be timed.
    """

    n: int = 1
    max_tokens: int | None = None
    stream: bool = False
    timed: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a response. The first part has its ``status`` and ``headers``, the last one is ``last``.

    ``usage`` is that of the whole request, in the last piece, where it is known. ``whole``: of a body that comes when
    all of it is there, so that its first bytes say nothing of the first token. ``tokens`` begin in the piece, as far as
    they are events of a stream.
    """

    body: bytes
    status: int | None = None
    headers: Headers = ()
    last: bool = False
    usage: Usage | None = None
    whole: bool = False
    tokens: int = 0


def _limited(fields: Fields, route: Route, tokens: int) -> Fields | None:
    """The fields with at most this many output tokens; None where the instance refuses the limit that they have."""
    found = dict(fields)
    own = value_of(found.pop(_FIRST_LIMIT, None))
    limits = {name: limit for name in LIMITS if (limit := value_of(found.get(name))) is not None}
    named = list(limits)
    if any(map(_is_negative, limits.values())):
        named = [_FIRST_LIMIT]  # no limit to llama.cpp alone
    elif not all(map(_is_limit, limits.values())) or (route.limit_needed and not named):
        return None
    elif not named and _is_limit(own):
        tokens = min(tokens, own if isinstance(own, int) else int(float(own)))
    changed = dict.fromkeys(named or [route.limit], Raw(b"%d" % tokens))
    fewest = value_of(found.get(_FEWEST))
    if _is_limit(fewest) and float(fewest) > tokens:  # the instance would refuse the lower limit
        changed[_FEWEST] = Raw(b"%d" % tokens)
    return found | changed


def beyond_connection(headers: Iterable[tuple[str, str]], but: Iterable[str] = ()) -> Headers:
    """The headers, in lower case, without those of one connection, those that its ``Connection`` header names, and
    these.

    The rule for every intermediary, RFC 9110, section 7.6.1.
    """
    found = [(name.lower(), value) for name, value in headers]
    named = {word.strip().lower() for name, value in found if name == "connection" for word in value.split(",")}
    dropped = _OF_CONNECTION | named | set(but)
    return tuple((name, value) for name, value in found if name not in dropped)


def request_headers(headers: Iterable[tuple[str, str]], own: Headers) -> Headers:
    """The headers that an instance gets, in lower case: the client's without those of its connection, then ``own``."""
    return (*beyond_connection(headers, _NOT_FORWARDED | {name for name, _ in own}), *own)


def media_type(headers: Iterable[tuple[str, str]]) -> str:
    """The type of a body, in lower case, by headers in lower case; empty where they do not say it."""
    said = next((value for name, value in headers if name == "content-type"), "")
    return said.partition(";")[0].strip().lower()


def _is_limit(value: object) -> bool:
    """Whether a lenient reader takes the value for a whole number above 0."""
    if isinstance(value, bool) or not _is_number(value):
        return False
    if isinstance(value, int):
        return value >= 1
    number = float(value)  # type: ignore[arg-type]  # it is one
    return number >= 1 and number.is_integer()


def _is_negative(value: object) -> bool:
    """Whether a lenient reader takes the value for a number below 0."""
    number = float(value) if isinstance(value, str) and _is_number(value) else value
    return isinstance(number, int | float) and number < 0


def _is_number(value: object) -> bool:
    """Whether a lenient reader takes the value for a number."""
    if isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return False
        return True
    return isinstance(value, int | float)
