"""What a fleet is told, what goes through its proxies, and how its servers are listed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from headway_fleet.client_requests import forwarded, is_open
from headway_fleet.server import Server, addresses
from headway_fleet.settings import FleetSettings

from headway_policies.scaling import Scaling


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "a fleet needs a model"),
        ({"serve": ["m"], "replicas": 2}, "no setting replicas"),
        ({"serve": ["m", "--port=1"]}, "chosen by each replica"),
        ({"serve": ["m"], "drain_s": 0}, "drain_s must be above 0"),
    ],
)
def test_a_wrong_setting_is_said(given: dict[str, Any], says: str) -> None:
    """Before any server is started."""
    with pytest.raises(ValueError, match=says):
        FleetSettings.read(given)


def test_the_configuration_file_has_settings_that_exist(root: Path) -> None:
    """The example is read as Ray Serve passes it on."""
    file = yaml.safe_load((root / "deploy" / "ray_serve" / "serve.yaml").read_text())
    (application,) = file["applications"]
    settings = FleetSettings.read(application["args"])
    assert settings.serve[1:] == ("--preset", "balanced")
    assert Scaling(**settings.scaling).maximum == 8


@pytest.mark.parametrize(
    ("path", "raw", "query", "target"),
    [
        ("/v1/completions", b"/v1/completions", b"", "/v1/completions"),
        ("/v1/responses/a/b", b"/v1/responses/a%2Fb", b"x=%20", "/v1/responses/a%2Fb?x=%20"),
        ("/v1/a\r\nx: y", None, b"", "/v1/a%0D%0Ax%3A%20y"),
        ("/headway/readyz", b"/headway/readyz", b"", "/headway/readyz"),
        ("/v1/../headway/v1/status", b"/v1/%2e%2e/headway/v1/status", b"", None),
        ("/headway/v1/status", b"/headway/v1/status", b"", None),
        ("/metrics", b"/metrics", b"", None),
        ("/v1", b"/v1", b"", None),
        ("/v1/a", b"/v1/a", b"x=\xff", "/v1/a?x=%FF"),
    ],
)
def test_only_inference_and_readiness_are_passed_on(path: str, raw: bytes, query: bytes, target: str | None) -> None:
    """As the client has quoted them, so that the server's own route guard sees what it sees without a front."""
    scope = {"method": "GET", "path": path, "raw_path": raw, "query_string": query, "headers": []}
    assert is_open(scope) is (target is not None)
    if target is not None:
        assert forwarded(scope, b"").target == target


def test_headers_of_one_connection_end_there() -> None:
    """A client's own word on its address is replaced, that on its class is dropped, as is what ``Connection`` names."""
    sent = {
        b"authorization": b"Bearer k",
        b"connection": b"close, X-Own",
        b"x-own": b"1",
        b"x-forwarded-for": b"1.2.3.4",
        b"x-headway-class": b"realtime",
        b"content-length": b"3",
        b"x-request-id": b"r",
    }
    scope = {"method": "POST", "path": "/v1/completions", "client": ("5.6.7.8", 9), "headers": list(sent.items())}
    assert forwarded(scope, b"{}").headers == (
        ("authorization", "Bearer k"),
        ("x-request-id", "r"),
        ("x-forwarded-for", "5.6.7.8"),
    )


def test_a_server_is_listed_for_prometheus_until_it_ends(tmp_path: Path) -> None:
    """Files of processes that were killed are removed by the next one, and logs are left alone."""
    (tmp_path / "gone.log").write_text("")
    (tmp_path / "server-999999999-gone.json").write_text("[]")
    one = Server(FleetSettings(("m",), folder=str(tmp_path)), "one")
    one.put_in_listing()
    (path,) = tmp_path.glob("*.json")
    assert json.loads(path.read_text()) == [{"targets": [one.address.name], "labels": {"replica": "one"}}]
    assert addresses(tmp_path) == {"one": one.address.name}
    asyncio.run(one.end())
    assert addresses(tmp_path) == {}
    assert [left.name for left in tmp_path.iterdir()] == ["gone.log"]
