"""The typed client of the server's admin API.

Every failure is one of these, each with a sentence fit for a page:

    AdminError
     +-- UnreachableError   nobody answered, or not in time
     +-- SwitchedOffError   404: the server was started without a token
     +-- TokenError         401: no token, or a wrong one
     +-- RoleError          403: the token may only read
     +-- StaleError         412: somebody preset was changed meanwhile
     +-- RefusedError       any other refusal (409, 415, 422, 428, 501, 5xx)
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, fields
from typing import Any

import requests

from headway_dashboard.analysis.status import Ladder, Status, read_ladder, read_status
from headway_dashboard.bounded_session import AnswerTooLargeError, bounded_session

TIMEOUT_S = (0.5, 5.0)
#: Any answer of the admin API; a hundred presets with all their settings are a tenth of it.
MAX_ANSWER_BYTES = 4 * 1024 * 1024

_MAX_DETAIL_CHARS = 1000

Setting = str | int | float | bool | list[str] | list[int]


class AdminError(Exception):
    """The server did not do what was asked. Its text is one sentence for the page."""


class UnreachableError(AdminError):
    """Nobody answered, or not in time."""


class SwitchedOffError(AdminError):
    """The admin API is off."""


class TokenError(AdminError):
    """No token, or a wrong one."""


class RoleError(AdminError):
    """The token may only read."""


class StaleError(AdminError):
    """Somebody preset was changed meanwhile."""


class RefusedError(AdminError):
    """Refused for another reason; the text is the server's."""


_DONE = (requests.codes.ok, requests.codes.accepted)
_BY_STATUS: dict[int, type[AdminError]] = {401: TokenError, 403: RoleError, 404: SwitchedOffError, 412: StaleError}


@dataclass(frozen=True, slots=True)
class Preset:
    """One preset the server can switch to."""

    name: str
    description: str
    source: str
    settings: Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class Presets:
    """All presets, and which one runs at which revision."""

    running: str
    revision: int
    listed: tuple[Preset, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that differs; None where one side does not have it."""

    setting: str
    before: Setting | None
    after: Setting | None


@dataclass(frozen=True, slots=True)
class Switched:
    """What a switch did."""

    name: str
    revision: int
    previous: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who changed what, when, and with which result."""

    time: str
    actor: str
    role: str
    address: str
    action: str
    before: str
    after: str
    revision: str
    reason: str
    result: str


def differences(before: Mapping[str, Setting], after: Mapping[str, Setting]) -> list[Change]:
    """The settings that differ between two presets, in the order of the first, then those only the second has."""
    keys = [*before, *(key for key in after if key not in before)]
    return [Change(key, before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)]


class AdminClient:
    """Speaks to one server with one token. The token goes into one header and nowhere else."""

    def __init__(self, url: str, token: str | None) -> None:
        self._url = f"{url}/headway"
        self._session = bounded_session(MAX_ANSWER_BYTES, sum(TIMEOUT_S))
        self._session.trust_env = False  # neither a proxy nor a .netrc of the environment may see the token
        if token:
            self._session.headers["Authorization"] = f"Bearer {token}"

    def presets(self) -> Presets:
        """Every preset and the running one."""
        body = self._ask("GET", "/v1/presets")
        listed = tuple(
            Preset(one["name"], one.get("description", ""), one.get("source", ""), one["settings"])
            for one in body["presets"]
        )
        return Presets(body["current"]["name"], int(body["current"]["revision"]), listed)

    def switch(self, name: str, *, revision: int, reason: str = "", actor: str = "") -> Switched:
        """Put a preset in force, provided that ``revision`` still runs. Raises StaleError otherwise."""
        body = self._ask(
            "PUT",
            "/v1/preset",
            headers={"If-Match": f'"{revision}"'},
            json={"name": name, "reason": reason, "actor": actor},
        )
        changes = tuple(Change(one["setting"], one.get("before"), one.get("after")) for one in body.get("changes", ()))
        return Switched(body["name"], int(body["revision"]), body.get("previous", ""), changes)

    def audit(self, limit: int = 50) -> list[AuditEntry]:
        """The newest entries of the audit log, newest first."""
        entries = self._ask("GET", f"/v1/audit?limit={limit}")["entries"]
        return [
            AuditEntry(**{field.name: str(entry.get(field.name) or "") for field in fields(AuditEntry)})
            for entry in entries
        ]

    def status(self) -> Status:
        """How the server stands now, and the time-outs it promises. One of an older version tells what it has."""
        try:
            ladder = self.ladder()
        except SwitchedOffError:
            ladder = Ladder()
        body = self._ask("GET", "/v1/status")
        try:
            return read_status(body, ladder, self._ask("GET", "/v1/preset"))
        except (SwitchedOffError, RefusedError):
            return read_status(body, ladder)

    def not_ready(self) -> tuple[str, ...]:
        """Why the server should get no traffic; needs no token."""
        body = self._ask("GET", "/readyz", fine=(*_DONE, requests.codes.service_unavailable))
        reasons = body.get("reasons")
        return tuple(str(one) for one in reasons) if isinstance(reasons, list) else ()

    def ladder(self) -> Ladder:
        """Where the fallback ladder stands, and its last moves."""
        return read_ladder(self._ask("GET", "/v1/fallback"))

    def order(self, rung: str | None, *, reason: str = "", actor: str = "") -> Ladder:
        """Put the fallback ladder on a rung; None lets it move by itself again."""
        return read_ladder(self._ask("PUT", "/v1/fallback", json={"rung": rung, "reason": reason, "actor": actor}))

    def recycle(self, *, reason: str = "", actor: str = "") -> int:
        """Have the engine replaced once it is empty; returns how many seats are still taken."""
        return int(self._ask("POST", "/v1/recycle", json={"reason": reason, "actor": actor}).get("running") or 0)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _ask(self, method: str, path: str, *, fine: Container[int] = _DONE, **request: Any) -> dict[str, Any]:
        try:
            answer = self._session.request(
                method, self._url + path, timeout=TIMEOUT_S, allow_redirects=False, **request
            )
        except requests.Timeout:
            raise UnreachableError("The server did not answer in time.") from None
        except AnswerTooLargeError:
            raise RefusedError("The server's answer is too large.") from None
        except requests.RequestException:
            raise UnreachableError("The server is not reachable.") from None
        if answer.status_code not in fine:
            raise _BY_STATUS.get(answer.status_code, RefusedError)(_detail(answer))
        try:
            body = answer.json()
        except (ValueError, RecursionError):
            raise RefusedError("The server's answer is not JSON.") from None
        if not isinstance(body, dict):
            raise RefusedError("The server's answer is not an object.")
        return body


def _detail(answer: requests.Response) -> str:
    """The ``detail`` of a problem document, or a plain sentence with the status."""
    try:
        detail = answer.json().get("detail")
    except (ValueError, AttributeError, RecursionError):
        detail = None
    return str(detail)[:_MAX_DETAIL_CHARS] if detail else f"The server answered with status {answer.status_code}."
