"""The doctor's checks of a running server, against servers that answer as each kind does."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from handler_server import Answer, Asked, answering

from headway.checks.finding import Severity, worst
from headway_tools.doctor import check_server, server

#: What a server behind the guard, with keys, answers to a client without one; any other path is 404.
GUARDED = {
    "/health": 200, "/headway/readyz": 200, "/headway/v1/status": 401, "/metrics": 401, "/v1/completions": 401,
    "/server_info": 401, "/is_paused": 401, "/kv_event_sources": 401,
}  # fmt: skip


def serving(metrics_page: str = "", **changed: int) -> AbstractContextManager[str]:
    """A server that gives these statuses by path, the reasons of one that is not ready, and this page of metrics."""
    statuses = GUARDED | {f"/{path}": status for path, status in changed.items()}

    def answer(request: Asked) -> Answer:
        status = statuses.get(request.path, 404)
        body = json.dumps({"ready": status == 200, "reasons": ["warming up"]})
        return Answer(status, (metrics_page if metrics_page and request.path == "/metrics" else body).encode())

    return answering(answer)


def found_by(url: str, severity: Severity) -> list[str]:
    """What the findings of this severity say."""
    return [one.what for one in check_server(url) if one.severity is severity]


def test_a_guarded_server_is_well() -> None:
    """Every check has a finding."""
    with serving() as url:
        found = list(check_server(url))
    assert worst(found) is Severity.OK
    assert len(found) == 6


@pytest.mark.parametrize(
    ("changed", "severity", "words"),
    [
        ({"health": 503}, Severity.FAIL, "/health answered 503"),
        ({"headway/readyz": 503}, Severity.WARN, "not ready: warming up"),
        ({"headway/readyz": 404}, Severity.FAIL, "not a Headway server"),
        ({"headway/v1/status": 200}, Severity.FAIL, "answered 200 without a token"),
        ({"metrics": 500}, Severity.FAIL, "/metrics answered 500"),
        ({"v1/completions": 400}, Severity.WARN, "answered 400 without a key"),
        ({"v1/completions": 429}, Severity.WARN, "locked out"),
        ({"v1/completions": 404}, Severity.WARN, "not known whether it wants a key"),
        ({"server_info": 200}, Severity.FAIL, "open without a token: /server_info"),
    ],
)
def test_what_is_wrong_is_found(changed: dict[str, int], severity: Severity, words: str) -> None:
    """Nothing else is."""
    with serving(**changed) as url:
        found = [one for one in check_server(url) if one.severity is not Severity.OK]
    (one,) = found
    assert one.severity is severity
    assert words in one.what
    assert one.remedy


@pytest.mark.parametrize(("seats", "found"), [(16, 1), (128, 0), (1024, 0)])
def test_an_engine_with_few_seats_is_information(seats: int, found: int) -> None:
    """By its ceiling, where the metrics can be read: vLLM itself never chooses so few."""
    page = f'# TYPE headway_limit gauge\nheadway_limit{{kind="live"}} 4.0\nheadway_limit{{kind="ceiling"}} {seats}.0\n'
    with serving(page, metrics=200) as url:
        infos = found_by(url, Severity.INFO)
    assert len(infos) == found
    assert all("the engine runs at most 16 sequences" in info for info in infos)


def test_an_admin_api_that_is_off_is_well() -> None:
    """404 is its answer then."""
    with serving(**{"headway/v1/status": 404}) as url:
        assert "the admin API is off" in found_by(url, Severity.OK)


def test_what_is_open_is_worse_on_a_public_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """On this machine open metrics are well, and inference without a key is a warning."""
    with serving(metrics=200, **{"v1/completions": 400}) as url:
        assert len(found_by(url, Severity.WARN)) == 1
        assert found_by(url, Severity.FAIL) == []
        monkeypatch.setattr(server, "is_loopback", lambda host: False)
        assert found_by(url, Severity.WARN) == ["/metrics is open to every client"]
        assert len(found_by(url, Severity.FAIL)) == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nonsense", "http://[::1"])
def test_where_nothing_answers_that_is_the_only_finding(url: str) -> None:
    """A URL that is none included."""
    (found,) = check_server(url)
    assert found.severity is Severity.FAIL
    assert "--url" in found.remedy


def test_neither_a_proxy_nor_a_password_of_this_user_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A server of this machine is asked itself, and as a client without any key."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1\nlogin ann\npassword secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    asked: list[Asked] = []

    def answer(request: Asked) -> Answer:
        asked.append(request)
        return Answer(GUARDED.get(request.path, 404), b"{}")

    for public in (False, True):
        monkeypatch.setattr(server, "is_loopback", lambda host, public=public: not public)
        if public:
            monkeypatch.delenv("HTTP_PROXY")
        with answering(answer) as url:
            assert found_by(url, Severity.FAIL) == []
    assert asked
    assert all("authorization" not in {name.lower() for name in request.headers} for request in asked)
