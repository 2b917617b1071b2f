"""The Origin check: no page of another site sends an order, and programs send no Origin at all."""

from __future__ import annotations

import pytest
from admin_api import PRESET, STATUS, admin_api, bearer, switch
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway.http.admin.origin import origin_of
from headway.http.admin.rules import AdminRules

LISTED = frozenset({"https://ops.example:8443"})


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://headway", 200),
        ("http://headway:80", 200),
        ("HTTP://HEADWAY", 200),
        ("https://ops.example:8443", 200),
        ("https://headway", 403),
        ("http://headway:8000", 403),
        ("http://headway.evil.example", 403),
        ("http://evil.example", 403),
        ("https://ops.example", 403),
        ("https://ops.example:8443/page", 403),
        ("http://anna@headway", 403),
        ("null", 403),
        ("", 403),
        ("http://headway http://evil.example", 403),
        ("http://headway:x", 403),
        ("http://[::1", 403),
    ],
)
async def test_an_order_comes_from_a_page_of_the_server_or_of_a_listed_origin(origin: str, status: int) -> None:
    """403 otherwise, with the origin, and nothing has changed."""
    async with admin_api(origins=LISTED) as (client, control):
        answer = await switch(client, Origin=origin)
        assert (answer.status_code, control.revision) == (status, 2 if status == 200 else 1)
        assert not [name for name in answer.headers if name.startswith("access-control-")]
        if status == 403:
            assert origin[:60] in answer.json()["detail"]
            assert control.audit.entries(1)[0].result.startswith("refused: a page of another origin")


async def test_each_origin_header_counts() -> None:
    """A second one is no way around the first."""
    async with admin_api() as (client, control):
        origins = [("Origin", "http://headway"), ("Origin", "http://evil.example")]
        headers = [*bearer().items(), ("If-Match", "*"), *origins]
        assert (await client.put(PRESET, headers=headers, json={"name": "latency"})).status_code == 403
        assert control.revision == 1


async def test_the_port_of_the_host_header_counts() -> None:
    """A page on another port of the same machine is another site."""
    async with admin_api(url="http://127.0.0.1:8000") as (client, _):
        assert (await switch(client, Origin="http://127.0.0.1:8000")).status_code == 200
        assert (await switch(client, "balanced", Origin="http://127.0.0.1:8501")).status_code == 403


async def test_reading_needs_no_origin() -> None:
    """A page of another site cannot read the answer: there is no header that lets it."""
    async with admin_api() as (client, _):
        answer = await client.get(STATUS, headers={**bearer(), "Origin": "http://evil.example"})
        assert answer.status_code == 200
        assert "access-control-allow-origin" not in answer.headers


@given(st.text(max_size=80) | st.from_regex(r"https?://[!-~]{0,40}", fullmatch=True))
def test_any_text_has_one_origin_or_none(text: str) -> None:
    """Whatever is sent as an Origin is read, and what was read is read the same again."""
    found = origin_of(text)
    assert found is None or origin_of(found) == found


def test_the_rules_come_from_the_environment() -> None:
    """Without it: pages of the server alone, no reason needed, twenty orders a minute."""
    assert AdminRules.from_environment({}) == AdminRules(frozenset(), False, 20)
    environment = {
        "HEADWAY_ADMIN_ORIGINS": "https://ops.example:8443, http://10.0.0.1 ,",
        "HEADWAY_REQUIRE_REASON": "1",
        "HEADWAY_ADMIN_ORDERS_PER_MINUTE": "200",
    }
    origins = frozenset({"https://ops.example:8443", "http://10.0.0.1:80"})
    assert AdminRules.from_environment(environment) == AdminRules(origins, True, 200)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HEADWAY_ADMIN_ORIGINS", "*"),
        ("HEADWAY_ADMIN_ORIGINS", "ops.example"),
        ("HEADWAY_ADMIN_ORIGINS", "https://ops.example/page"),
        ("HEADWAY_ADMIN_ORIGINS", ",".join(["http://a"] * 101)),
        ("HEADWAY_REQUIRE_REASON", "yes"),
        ("HEADWAY_ADMIN_ORDERS_PER_MINUTE", "0"),
    ],
)
def test_a_wrong_rule_is_one_line_that_names_the_variable(variable: str, value: str) -> None:
    """At the start, before there is a server."""
    with pytest.raises(HeadwayError, match=f"^{variable}: .* needed, not ") as caught:
        AdminRules.from_environment({variable: value})
    assert "\n" not in str(caught.value)
