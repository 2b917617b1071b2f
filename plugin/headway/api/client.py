"""The admin API of a running server, typed: answers become models, failures become the errors of ``exits``."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests
from pydantic import BaseModel, ValidationError
from requests.auth import AuthBase

from headway.api.bounded_session import AnswerTooLargeError, bounded_session
from headway.api.errors import FailedError, ServerUnreachableError, TokenError, UsageError
from headway.api.schema import CurrentPreset, FallbackNow, PresetList, RecycleAccepted, Status, Switched
from headway.api.token import find_token

_CONNECT_TIMEOUT_S = 3.0
_READ_TIMEOUT_S = 15.0
MAX_ANSWER_BYTES = 4 * 1024 * 1024
_MAX_DETAIL_CHARS = 1000
_Answer = TypeVar("_Answer", bound=BaseModel)

_NOT_SET = (
    "no admin token: set HEADWAY_ADMIN_TOKEN, or HEADWAY_ADMIN_TOKEN_FILE to a file that holds it "
    "(the server must be started with the same one)"
)


class StaleError(FailedError):
    """Somebody else switched the preset between our look and our switch."""


class RefusedOrderError(UsageError):
    """The server does not accept what it was told."""


class RefusedPresetError(RefusedOrderError):
    """The server does not accept this preset."""


class AdminClient:
    """Calls ``/headway/v1/`` at ``url`` with a bearer token. Use as a context manager."""

    def __init__(self, url: str, token: str) -> None:
        self.url = _checked(url)
        self._session = bounded_session(MAX_ANSWER_BYTES, _CONNECT_TIMEOUT_S + _READ_TIMEOUT_S)
        self._session.auth = _Bearer(token)
        self._session.trust_env = not is_loopback(urlsplit(self.url).hostname or "")

    def __enter__(self) -> AdminClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def status(self) -> Status:
        """AdmissionState, readiness, limit and the count of every class."""
        return _parsed(Status, self._call("GET", "status"), self.url)

    def presets(self) -> PresetList:
        """Every preset the server knows, and the current one."""
        return _parsed(PresetList, self._call("GET", "presets"), self.url)

    def preset(self) -> tuple[CurrentPreset, str]:
        """The preset in force and its ETag."""
        response = self._call("GET", "preset")
        current = _parsed(CurrentPreset, response, self.url)
        return current, response.headers.get("ETag", f'"{current.revision}"')

    def use(self, name: str, etag: str, *, reason: str | None = None, actor: str | None = None) -> Switched:
        """Switch, if the preset in force is still the one of ``etag``. Raises StaleError, RefusedPresetError."""
        body = {"name": name, "reason": reason, "actor": actor}
        response = self._call(
            "PUT",
            "preset",
            json={key: value for key, value in body.items() if value is not None},
            headers={"If-Match": etag},
        )
        return _parsed(Switched, response, self.url)

    def fallback(self) -> FallbackNow:
        """Where the fallback ladder stands."""
        return _parsed(FallbackNow, self._call("GET", "fallback"), self.url)

    def order_fallback(self, rung: str | None, *, reason: str | None = None, actor: str | None = None) -> FallbackNow:
        """Put the ladder on a rung; None: let it move by itself. Raises RefusedOrderError."""
        said = {key: value for key, value in (("reason", reason), ("actor", actor)) if value is not None}
        return _parsed(FallbackNow, self._call("PUT", "fallback", json={"rung": rung} | said), self.url)

    def recycle(self, *, reason: str | None = None, actor: str | None = None) -> RecycleAccepted:
        """Replace the engine. Raises FailedError where the server cannot, or not now."""
        said = {key: value for key, value in (("reason", reason), ("actor", actor)) if value is not None}
        return _parsed(RecycleAccepted, self._call("POST", "recycle", json=said), self.url)

    def _call(self, method: str, path: str, **options: Any) -> requests.Response:
        try:
            response = self._session.request(
                method,
                f"{self.url}/headway/v1/{path}",
                timeout=(_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S),
                **options,
            )
        except requests.RequestException as error:
            raise ServerUnreachableError(_why_unreachable(self.url, error)) from None
        if not response.ok:
            raise _failure(response, self.url)
        return response


class _Bearer(AuthBase):
    """Sets the header itself: a plain header would be replaced by an entry in ~/.netrc."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def connect(url: str, environ: Mapping[str, str]) -> AdminClient:
    """A client with the token of the environment. Raises TokenError where none is set."""
    token = find_token("ADMIN", environ)
    if token is None:
        raise TokenError(_NOT_SET)
    if not (token.secret.isascii() and token.secret.isprintable()):
        raise UsageError(f"{token.variable}: the token may hold printable ASCII characters only")
    return AdminClient(url, token.secret)


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise UsageError(f"not a URL of a server: {url!r}; it looks like http://127.0.0.1:8000")
    return url.rstrip("/")


def _why_unreachable(url: str, error: requests.RequestException) -> str:
    if isinstance(error, AnswerTooLargeError):
        return f"{url}: {error}; is it a Headway server? check --url"
    if isinstance(error, requests.Timeout):
        return f"{url} does not answer in time; is the server overloaded or still starting?"
    if isinstance(error, requests.exceptions.SSLError):
        return f"{url}: the TLS connection failed; check https and the certificate"
    return f"nobody answers at {url}; start one with `headway serve MODEL`, or give --url"


def _failure(response: requests.Response, url: str) -> Exception:
    detail = _detail(response)
    if detail is None:
        if response.status_code >= 500:
            return FailedError(f"{url} answered {response.status_code}; look at the server's log")
        return ServerUnreachableError(
            f"{url} answered {response.status_code} and is not a Headway server; check --url, or start it with "
            "`headway serve`"
        )
    return _KINDS.get(response.status_code, FailedError)(detail)


#: What a problem of the admin API means to a caller of the command.
_KINDS: dict[int, type[Exception]] = {
    401: TokenError,
    403: TokenError,
    404: TokenError,  # the admin API answers 404 where the server was started without a token
    412: StaleError,
    422: RefusedPresetError,
}


def _detail(response: requests.Response) -> str | None:
    """The sentence of a problem document (RFC 9457), or None where the answer is none."""
    if "application/problem+json" not in response.headers.get("Content-Type", ""):
        return None
    try:
        problem = response.json()
    except (requests.exceptions.JSONDecodeError, RecursionError):
        return None
    if not isinstance(problem, dict):
        return None
    return str(problem.get("detail") or problem.get("title") or response.status_code)[:_MAX_DETAIL_CHARS]


def _parsed(model: type[_Answer], response: requests.Response, url: str) -> _Answer:
    try:
        return model.model_validate_json(response.content)
    except ValidationError:
        raise ServerUnreachableError(f"{url} answered something that is not Headway's admin API; check --url") from None
