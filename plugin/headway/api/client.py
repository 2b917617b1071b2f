"""The client of the admin API: answers become models, failures become the errors of ``headway.api.errors``."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests
from pydantic import BaseModel
from urllib3.exceptions import ProtocolError

from headway.api import routes
from headway.api.bounded_session import AnswerTooLargeError, bounded_session
from headway.api.errors import (
    BY_STATUS,
    BadUrlError,
    BrokenConnectionError,
    NoAnswerInTimeError,
    NotHeadwayError,
    RefusedError,
    TlsError,
    TooLargeError,
    UnreachableError,
)
from headway.api.lenient import read_leniently
from headway.api.routes import Route
from headway.api.schema import (
    AdmissionChanged,
    AuditEntry,
    AuditKind,
    AuditLog,
    Command,
    CurrentPreset,
    FallbackCommand,
    FallbackState,
    Forecast,
    ForecastCommand,
    ForecastProgress,
    LimitCommand,
    PauseCommand,
    PresetList,
    Readiness,
    RecycleAccepted,
    SilenceCommand,
    Silences,
    Status,
    SwitchCommand,
    Switched,
    Traffic,
    Trial,
    TrialReport,
    UndoCommand,
    UsageReport,
    WarmupAccepted,
)

#: Time to connect, and time between two reads; the whole answer has the sum of both.
TIMEOUT_S = (3.0, 15.0)
#: Any answer of the admin API; a hundred presets with all their settings are a tenth of it.
MAX_ANSWER_BYTES = 4 * 1024 * 1024
#: A trace of as many requests as a server records.
MAX_TRACE_BYTES = 16 * 1024 * 1024
_MAX_DETAIL_CHARS = 1000
_Answer = TypeVar("_Answer", bound=BaseModel)


class AdminClient:
    """Calls one server with one token. Use as a context manager, or close it.

    The token goes into one header of requests to this server, and nowhere else: no redirect is followed. ``lenient``
    reads answers of any version (``headway.api.lenient``). Proxies of the environment are used for other machines only,
    and not at all without ``use_proxies``. Every method raises AdminError. Nothing is sent twice; a command has a
    connection of its own, which the server has not closed meanwhile as an idle one.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        timeout_s: tuple[float, float] = TIMEOUT_S,
        use_proxies: bool = True,
        lenient: bool = False,
    ) -> None:
        self.url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._lenient = lenient
        self._host = host_of(url)
        self.token = token
        self._use_proxies = use_proxies and not is_loopback(self._host)
        self._session = self._bounded(MAX_ANSWER_BYTES)

    def __enter__(self) -> AdminClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def readiness(self) -> Readiness:
        """Whether the server takes traffic; needs no token."""
        return self._ask(routes.READYZ, Readiness)

    def status(self) -> Status:
        """The state of the whole server."""
        return self._ask(routes.STATUS, Status)

    def traffic(self) -> Traffic:
        """The arrivals of the last half hour."""
        return self._ask(routes.TRAFFIC, Traffic)

    def trace(self) -> bytes:
        """The same request by request: a trace file as ``headway simulate --trace`` reads it."""
        return self._file(routes.TRACE, routes.TRACE.media)

    def usage(self, **asked: str) -> UsageReport:
        """The sums of the accounting; ``asked`` are the parameters of the route. Raises RefusedError."""
        return self._ask(routes.USAGE, UsageReport, params=asked)

    def usage_csv(self, **asked: str) -> bytes:
        """The same rows as CSV."""
        return self._file(routes.USAGE, "text/csv", params={**asked, "format": "csv"})

    def presets(self) -> PresetList:
        """All presets of the server, and the one in force."""
        return self._ask(routes.PRESETS, PresetList)

    def forecast(
        self,
        presets: Sequence[str] | None = None,
        *,
        toml: str | None = None,
        within_s: float | None = None,
        span_s: float | None = None,
    ) -> Forecast:
        """The forecast of these presets, all of them, or one that is saved nowhere; it returns when that is ready.

        Raises InvalidCommandError, RefusedError.
        """
        listed = None if presets is None else list(presets)
        terms = {"presets": listed, "toml": toml, "within_s": within_s, "span_s": span_s}
        given: dict[str, Any] = {name: term for name, term in terms.items() if term is not None}
        command = ForecastCommand.model_construct(**given)
        timeout_s = (self._timeout_s[0], self._timeout_s[1] + (within_s or ForecastCommand().within_s))
        return self._ask(routes.FORECAST, Forecast, command, timeout_s=timeout_s)

    def forecast_progress(self) -> ForecastProgress:
        """The progress of the present forecast."""
        return self._ask(routes.FORECAST_PROGRESS, ForecastProgress)

    def preset(self) -> CurrentPreset:
        """The preset in force with its settings."""
        return self._ask(routes.PRESET, CurrentPreset)

    def switch(
        self,
        name: str,
        *,
        revision: int,
        revert_after_s: float | None = None,
        revert_if: Sequence[str] = (),
        reason: str | None = None,
        actor: str | None = None,
    ) -> Switched:
        """Put a preset in force, if ``revision`` is still in force, on trial where a reason to go back is given.

        Raises StaleError, InvalidCommandError.
        """
        given: dict[str, Any] = {} if revert_after_s is None else {"revert_after_s": revert_after_s}
        if revert_if:
            given["revert_if"] = list(revert_if)
        command = SwitchCommand.model_construct(name=name, **given, **_said(reason, actor))
        return self._ask(routes.SWITCH, Switched, command, headers={"If-Match": f'"{revision}"'})

    def undo(
        self, to: int | None = None, *, revision: int, reason: str | None = None, actor: str | None = None
    ) -> Switched:
        """Put the revision ``to`` in force again, None: the one before, if ``revision`` is still in force.

        Raises StaleError, InvalidCommandError.
        """
        command = UndoCommand.model_construct(revision=to, **_said(reason, actor))
        return self._ask(routes.UNDO, Switched, command, headers={"If-Match": f'"{revision}"'})

    def trial(self) -> Trial | None:
        """The trial that goes on, or the last one; None before the first."""
        return self._ask(routes.TRIAL, TrialReport).trial

    def keep(self, *, revision: int, reason: str | None = None, actor: str | None = None) -> Trial:
        """End the trial of the preset in force: it stays. Raises StaleError; RefusedError where there is no trial."""
        command = Command.model_construct(**_said(reason, actor))
        return self._ask(routes.KEEP, Trial, command, headers={"If-Match": f'"{revision}"'})

    def order_limit(
        self,
        seats: int | None,
        *,
        revision: int,
        window_ms: float | None = None,
        expires_s: float | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> Switched:
        """Put the preset in force on so many seats, None: back on its own, if ``revision`` is still in force.

        Raises StaleError, InvalidCommandError.
        """
        terms = {"window_ms": window_ms, "expires_s": expires_s}
        given: dict[str, Any] = {name: value for name, value in terms.items() if value is not None}
        command = LimitCommand.model_construct(seats=seats, **given, **_said(reason, actor))
        return self._ask(routes.ORDER_LIMIT, Switched, command, headers={"If-Match": f'"{revision}"'})

    def fallback(self) -> FallbackState:
        """The state of the fallback ladder."""
        return self._ask(routes.FALLBACK, FallbackState)

    def order_fallback(self, rung: str | None, *, reason: str | None = None, actor: str | None = None) -> FallbackState:
        """Put the fallback ladder on a rung; None makes it automatic again. Raises InvalidCommandError."""
        command = FallbackCommand.model_construct(rung=rung, **_said(reason, actor))
        return self._ask(routes.ORDER_FALLBACK, FallbackState, command)

    def recycle(self, *, reason: str | None = None, actor: str | None = None) -> RecycleAccepted:
        """Replace the engine. Raises RefusedError where the server cannot, or not now."""
        return self._ask(routes.RECYCLE, RecycleAccepted, Command.model_construct(**_said(reason, actor)))

    def pause(
        self, *, expires_s: float | None = None, reason: str | None = None, actor: str | None = None
    ) -> AdmissionChanged:
        """Suspend dispatch, for ``expires_s`` or until a resume; requests wait. A pause that has an end is renewed.

        Raises RefusedError where the server drains, closes, or is paused without an end.
        """
        given: dict[str, Any] = {} if expires_s is None else {"expires_s": expires_s}
        return self._ask(routes.PAUSE, AdmissionChanged, PauseCommand.model_construct(**given, **_said(reason, actor)))

    def resume(self, *, reason: str | None = None, actor: str | None = None) -> AdmissionChanged:
        """End a pause or a drain. Raises RefusedError where no command blocks dispatch."""
        return self._ask(routes.RESUME, AdmissionChanged, Command.model_construct(**_said(reason, actor)))

    def drain(self, *, reason: str | None = None, actor: str | None = None) -> AdmissionChanged:
        """Refuse new and waiting requests. Raises RefusedError where the server drains already, or closes."""
        return self._ask(routes.DRAIN, AdmissionChanged, Command.model_construct(**_said(reason, actor)))

    def warm_up(self, *, reason: str | None = None, actor: str | None = None) -> WarmupAccepted:
        """Warm the running engine up. Raises RefusedError where the server cannot, or not now."""
        return self._ask(routes.WARMUP, WarmupAccepted, Command.model_construct(**_said(reason, actor)))

    def silence(
        self, alert: str, expires_s: float | None, *, reason: str | None = None, actor: str | None = None
    ) -> Silences:
        """Silence an alert for so long; None: end its silence. Raises RefusedError where too many are silent."""
        command = SilenceCommand.model_construct(alert=alert, expires_s=expires_s, **_said(reason, actor))
        return self._ask(routes.SILENCE, Silences, command)

    def audit(self, limit: int = routes.DEFAULT_AUDIT_ENTRIES, kind: AuditKind | None = None) -> list[AuditEntry]:
        """The newest entries of the audit log, the newest first; None: all but the commands that changed nothing."""
        asked: dict[str, Any] = {"limit": limit} if kind is None else {"limit": limit, "kind": kind.value}
        return self._ask(routes.AUDIT, AuditLog, params=asked).entries

    def _ask(
        self,
        route: Route,
        answer: type[_Answer],
        command: Command | None = None,
        timeout_s: tuple[float, float] | None = None,
        **options: Any,
    ) -> _Answer:
        if command is None:
            response = self._send(route, self._session, **options)
        else:
            body = command.model_dump(exclude_unset=True)
            with self._bounded(MAX_ANSWER_BYTES, timeout_s) as session:
                response = self._send(route, session, timeout_s, json=body, **options)
        if response.status_code not in (route.status, route.otherwise):
            raise _refused(response, self.url)
        try:
            return self._read(answer, response)
        except (ValueError, RecursionError):
            text = "The server's answer is not one of Headway's admin API."
            raise NotHeadwayError(text, self.url) from None

    def _file(self, route: Route, media: str, **options: Any) -> bytes:
        """An answer that is no JSON."""
        with self._bounded(MAX_TRACE_BYTES) as session:
            response = self._send(route, session, **options)
        if response.status_code != route.status:
            raise _refused(response, self.url)
        if not response.headers.get("Content-Type", "").startswith(media):
            raise NotHeadwayError("The server's answer is not one of Headway's admin API.", self.url)
        return response.content

    def _bounded(self, most_bytes: int, timeout_s: tuple[float, float] | None = None) -> requests.Session:
        """A session with the token, whose answers have at most so many bytes."""
        session = bounded_session(most_bytes, sum(timeout_s or self._timeout_s), self.token)
        session.trust_env = self._use_proxies
        return session

    def _send(
        self,
        route: Route,
        session: requests.Session,
        timeout_s: tuple[float, float] | None = None,
        **options: Any,
    ) -> requests.Response:
        if not self._host:
            raise BadUrlError(self.url)
        try:
            return session.request(
                route.method,
                self.url + route.path,
                timeout=timeout_s or self._timeout_s,
                allow_redirects=False,
                **options,
            )
        except AnswerTooLargeError as error:
            raise TooLargeError(f"The server's answer is too large: {error}.", self.url) from None
        except requests.Timeout:
            raise NoAnswerInTimeError("The server did not answer in time.", self.url) from None
        except requests.exceptions.SSLError:
            raise TlsError("The TLS connection to the server failed.", self.url) from None
        except requests.RequestException as error:
            if error.args and isinstance(error.args[0], ProtocolError):
                raise BrokenConnectionError("The connection ended before the server answered.", self.url) from None
            raise UnreachableError("The server is not reachable.", self.url) from None

    def _read(self, answer: type[_Answer], response: requests.Response) -> _Answer:
        """The answer as a model. Raises ValueError, of which pydantic's ValidationError is one."""
        if not self._lenient:
            return answer.model_validate_json(response.content)
        body = response.json()
        if not isinstance(body, dict):
            raise ValueError("not an object")
        return read_leniently(answer, body)


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(url: str) -> str:
    """The host of a server's URL; empty for any other text."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "" if parts.scheme in {"http", "https"} and parts.port != 0 else ""
    except ValueError:
        return ""


def _said(reason: str | None, actor: str | None) -> dict[str, Any]:
    """The values that were given, by name."""
    return {name: text for name, text in (("reason", reason), ("actor", actor)) if text}


def _refused(response: requests.Response, url: str) -> RefusedError:
    detail = _detail(response)
    is_problem = detail is not None and "application/problem+json" in response.headers.get("Content-Type", "")
    text = detail or f"The server answered with status {response.status_code}."
    kind = BY_STATUS.get(response.status_code, RefusedError)
    return kind(text, url, status=response.status_code, is_problem=is_problem)


def _detail(response: requests.Response) -> str | None:
    """The sentence of a problem document; None for any other answer."""
    try:
        problem = response.json()
    except (ValueError, RecursionError):
        return None
    if not isinstance(problem, dict):
        return None
    said = problem.get("detail") or problem.get("title")
    return None if said is None else str(said)[:_MAX_DETAIL_CHARS]
