"""The source of what tenants have used: what it asks a server for."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import pytest
from stub_server import VIEWER_TOKEN, StubServer

from headway_dashboard.analysis.view import Span
from headway_dashboard.sources import TenantUsageSource
from headway_dashboard.sources.tenant_usage import PARTS

LIVE, FIXED = Span(900.0), Span(3600.0, 1_800_000_000.0)
TIMES = {"since": "2027-01-15T07:00:00+00:00", "until": "2027-01-15T08:00:00+00:00"}


@pytest.mark.parametrize(("span", "times"), [(LIVE, {"since": "900s"}), (FIXED, TIMES)], ids=["live", "fixed"])
@pytest.mark.parametrize("tenant", [None, "", "loud"])
def test_the_range_and_the_tenant_are_asked_for(span: Span, times: dict[str, str], tenant: str | None) -> None:
    """All tenants always, since the shares are of all; one of them by its parts, also one without a name."""
    with StubServer() as stub:
        source = TenantUsageSource(stub.url, VIEWER_TOKEN, span, tenant)
        source.poll()
        asked = [dict(parse_qsl(urlsplit(path).query, keep_blank_values=True)) for _, path in stub.requests]
        one = [] if tenant is None else [{"by": PARTS, "tenant": tenant, **times}]
        assert asked == [{"by": "tenant", **times}, *one]
        found = source.read()
        source.close()
    assert found.of_all is not None
    assert (found.of_chosen is None) == (tenant is None)


def test_without_a_token_nothing_is_asked() -> None:
    """Each refusal would be in the server's audit log."""
    with StubServer() as stub:
        source = TenantUsageSource(stub.url, None, LIVE, None)
        source.poll()
        source.close()
        assert stub.requests == []
        assert source.read().problem


def test_a_refused_token_is_not_sent_again_for_a_while() -> None:
    """A server locks out an address with too many wrong tokens, and the dashboard's other pages with it."""
    with StubServer() as stub:
        source = TenantUsageSource(stub.url, "of yesterday", LIVE, None)
        for _ in range(3):
            source.poll()
        assert len(stub.requests) == 1
        assert "does not know this token" in source.read().problem
        source._refused_until_s = 0.0
        source.poll()
        assert len(stub.requests) == 2
        source.close()


def test_an_answer_is_kept_as_long_as_a_slow_refresh_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader between two polls finds the last one."""
    now_s = [1000.0]
    with StubServer() as stub:
        source = TenantUsageSource(stub.url, VIEWER_TOKEN, LIVE, None, interval_s=60.0)
        monkeypatch.setattr(source, "_clock", lambda: now_s[0])
        assert source.read(10.0).of_all is not None
        now_s[0] += 45.0
        assert source.read(0.0).of_all is not None
        source.close()
