"""Checks of a running server, as a client without any key sees it. Nothing is generated, and nothing is changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import requests

from headway.api import bounded_session, is_loopback
from headway.checks.finding import Finding, fail, ok, warn
from headway_tools.doctor.engine_flags import CPU_SEATS, GPU_SEATS, LARGE_GPU_SEATS, fewer_seats

_MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
_TIMEOUT_S: Final = 10.0
_CLOSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_TAKEN = frozenset({HTTPStatus.OK, HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY})
_CEILING = re.compile(r'^headway_limit\{kind="ceiling"\} ([0-9.e+]+)$', re.MULTILINE)
_SET_KEYS = "make keys with: headway keys add --tenant NAME, and set HEADWAY_KEYS_FILE"


def check_server(url: str) -> Iterator[Finding]:
    """All checks of a server; where nothing answers, only the finding that says so."""
    public = not is_loopback(_host(url))
    with bounded_session(_MAX_ANSWER_BYTES, _TIMEOUT_S) as session:
        session.trust_env = public  # a server of this machine is reached past any proxy
        session.auth = _no_key
        try:
            yield from _check_health(session, url)
            yield _check_admin(session, url)
            yield _check_metrics(session, url, public=public)
            yield from _check_ceiling(session, url)
            yield _check_inference(session, url, public=public)
            yield _check_operator_routes(session, url)
        except requests.RequestException as error:
            yield fail(f"{url} does not answer ({type(error).__name__})", "start the server, or correct --url")


def _no_key(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Send no password of ~/.netrc."""
    return request


def _check_health(session: requests.Session, url: str) -> Iterator[Finding]:
    health = _status(session, "GET", f"{url}/health")
    if health == HTTPStatus.OK:
        yield ok("the engine is healthy")
    else:
        yield fail(f"/health answered {health}", "look at the server's log; the engine is not running")
    readiness = session.get(f"{url}/headway/readyz", timeout=_TIMEOUT_S)
    if readiness.status_code == HTTPStatus.OK:
        yield ok("the server is ready")
    elif readiness.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
        yield warn(f"the server is not ready: {_reasons(readiness)}", "wait, or look at: headway status")
    else:
        remedy = "start it with `headway serve`, or with VLLM_PLUGINS=headway"
        yield fail(f"/headway/readyz answered {readiness.status_code}: it is not a Headway server", remedy)


def _check_admin(session: requests.Session, url: str) -> Finding:
    status = _status(session, "GET", f"{url}/headway/v1/status")
    if status == HTTPStatus.UNAUTHORIZED:
        return ok("the admin API wants a token")
    if status == HTTPStatus.NOT_FOUND:
        return ok("the admin API is off")
    return fail(f"/headway/v1/status answered {status} without a token", "stop the server, and look at its version")


def _check_metrics(session: requests.Session, url: str, *, public: bool) -> Finding:
    status = _status(session, "GET", f"{url}/metrics")
    if status == HTTPStatus.OK:
        if not public:
            return ok("/metrics is open, on this machine only")
        return warn("/metrics is open to every client", "set HEADWAY_CLOSED_ROUTES=/metrics, and scrape with a token")
    if status in _CLOSED:
        return ok("/metrics wants a key or a token")
    return fail(f"/metrics answered {status}", "look at the server's log")


def _check_ceiling(session: requests.Session, url: str) -> Iterator[Finding]:
    """The seats that the engine was started with, where ``/metrics`` can be read."""
    found = _CEILING.search(session.get(f"{url}/metrics", timeout=_TIMEOUT_S).text)
    if found is not None and (seats := int(float(found[1]))) < CPU_SEATS:
        usual = f"vLLM's own number is {CPU_SEATS} on a CPU, {GPU_SEATS} or {LARGE_GPU_SEATS} on a GPU"
        yield fewer_seats("the engine was started with a small --max-num-seqs", seats, usual)


def _check_inference(session: requests.Session, url: str, *, public: bool) -> Finding:
    status = _status(session, "POST", f"{url}/v1/completions")
    if status in _CLOSED:
        return ok("/v1/completions wants a key")
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return warn("/v1/completions answered 429: this address is locked out", "wait a minute, and try again")
    if status not in _TAKEN:
        return warn(f"/v1/completions answered {status}: it is not known whether it wants a key", "look at its log")
    what = f"/v1/completions answered {status} without a key: every client may generate"
    return fail(what, _SET_KEYS) if public else warn(what, _SET_KEYS)


def _check_operator_routes(session: requests.Session, url: str) -> Finding:
    """Check routes that only read, so that an open one does no harm."""
    routes = ("/server_info", "/is_paused", "/kv_event_sources")
    opened = [path for path in routes if _status(session, "GET", f"{url}{path}") == HTTPStatus.OK]
    if opened:
        return fail(f"open without a token: {', '.join(opened)}", "serve with Headway's route guard; see the log")
    return ok("the routes of operators want a token")


def _status(session: requests.Session, method: str, url: str) -> int:
    """The status of an answer without any key; the body of a POST is an empty object, which no route accepts."""
    body: dict[str, Any] = {"json": {}} if method == "POST" else {}
    return session.request(method, url, timeout=_TIMEOUT_S, allow_redirects=False, **body).status_code


def _reasons(response: requests.Response) -> str:
    try:
        return ", ".join(map(str, response.json()["reasons"]))[:300] or "no reason given"
    except (ValueError, KeyError, TypeError):
        return "no reason given"


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
