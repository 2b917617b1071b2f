"""The checks before a server listens: what it must not start with, and what it warns of."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from headway.checks import start
from headway.checks.start import cautions, refusals, rust_front_end, warnings

TOKEN = "t" * 32
GOOD = {"HEADWAY_KEYS_FILE": "keys.toml"}


def args(**given: object) -> Namespace:
    """The arguments of a server on this machine only."""
    return Namespace(**({"host": "127.0.0.1"} | given))


def test_a_good_configuration_has_no_findings() -> None:
    """A keys file, a loopback address, and the installed vLLM and Starlette."""
    assert cautions(args(), GOOD | {"HEADWAY_ADMIN_TOKEN": TOKEN}) == []


@pytest.mark.parametrize(
    ("given", "environment", "words"),
    [
        ({}, {"VLLM_SERVER_DEV_MODE": "1"}, "VLLM_SERVER_DEV_MODE=1 mounts routes"),
        ({"host": None}, {"VLLM_SERVER_DEV_MODE": "1", "HEADWAY_ALLOW_DEV_MODE": "1"}, "on every address"),
        ({"host": "10.0.0.1"}, {"VLLM_SERVER_DEV_MODE": "1", "HEADWAY_ALLOW_DEV_MODE": "1"}, "listens on 10.0.0.1"),
        ({}, {"VLLM_SERVER_DEV_MODE": "1", "HEADWAY_ALLOW_DEV_MODE": "yes"}, "DEV_MODE: 1 or 0 is needed, not 'yes'"),
        ({}, {"VLLM_ALLOW_INSECURE_SERIALIZATION": "1"}, "VLLM_ALLOW_INSECURE_SERIALIZATION=1"),
        (
            {},
            {"VLLM_ENABLE_RESPONSES_API_STORE": "1", "HEADWAY_KEYS_FILE": "/keys.toml"},
            "VLLM_ENABLE_RESPONSES_API_STORE=1",
        ),
        ({}, {"VLLM_USE_RUST_FRONTEND": "1"}, "VLLM_USE_RUST_FRONTEND=1"),
        ({"grpc": True}, {}, "--grpc"),
        ({"api_server_count": 2}, {"HEADWAY_BATCH_DIR": "/a"}, "start them with headway serve, one queue for all"),
        ({"uds": "/a"}, {"HEADWAY_BEHIND_QUEUE": "1"}, "--uds cannot be used with several API servers"),
        ({"root_path": "/a", "behind_one_queue": True}, {}, "--root-path cannot be used with several API servers"),
        ({"enable_ssl_refresh": True}, {"HEADWAY_BEHIND_QUEUE": "1"}, "--enable-ssl-refresh cannot"),
        ({"api_key": ["x", TOKEN]}, {"HEADWAY_ADMIN_TOKEN": TOKEN}, "HEADWAY_ADMIN_TOKEN: the token is also"),
        ({}, {"HEADWAY_VIEWER_TOKEN": TOKEN, "VLLM_API_KEY": TOKEN}, "HEADWAY_VIEWER_TOKEN: the token is also"),
        ({}, {"HEADWAY_ADMIN_TOKEN_FILE": "/no/such/file"}, "HEADWAY_ADMIN_TOKEN_FILE (/no/such/file)"),
    ],
)
def test_a_server_does_not_start_with(given: dict[str, object], environment: dict[str, str], words: str) -> None:
    """One line, which says what to do."""
    (line,) = refusals(args(**given), GOOD | environment)
    assert words in line
    assert "; " in line
    assert "\n" not in line
    assert TOKEN not in line


NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
OFFLOADS = {"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}


def of_several(*connectors: dict[str, str]) -> dict[str, object]:
    """The configuration of several connectors at once."""
    extra = {"connectors": list(connectors)}
    return {"kv_connector": "MultiConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra}


@pytest.mark.parametrize(
    "config",
    [
        NIXL,
        Namespace(**NIXL, kv_connector_extra_config={}),
        {"kv_connector": "MooncakeConnector", "kv_role": "kv_both"},
        {"kv_connector": "ExampleConnector", "kv_role": "kv_producer"},
        Namespace(kv_connector="LMCacheConnectorV1", kv_role="kv_consumer"),
        of_several(OFFLOADS, NIXL),
    ],
)
def test_a_split_of_prefill_and_decode_is_refused_by_name(config: object) -> None:
    """By the connector or the role, however vLLM has read it; the line names both and says what to do."""
    (line,) = refusals(args(kv_transfer_config=config), GOOD)
    assert "splits prefill and decode" in line
    assert any(name in line for name in ("Nixl", "Mooncake", "kv_producer", "kv_consumer"))
    assert "headway route" in line


@pytest.mark.parametrize("config", [None, OFFLOADS, Namespace(**OFFLOADS), of_several(OFFLOADS)])
def test_kv_blocks_that_one_server_keeps_elsewhere_are_no_finding(config: object) -> None:
    """A connector that offloads them, with both roles."""
    assert refusals(args(kv_transfer_config=config), GOOD) == []


@pytest.mark.parametrize("given", [{"uds": "/a"}, {"root_path": "/a"}, {"enable_ssl_refresh": True}])
def test_one_api_server_has_what_several_cannot_have(given: dict[str, object]) -> None:
    """Its public port is vLLM's own."""
    assert refusals(args(**given), GOOD) == []


def test_a_token_file_that_is_empty_is_refused(tmp_path: Path) -> None:
    """The admin API was meant to be on, and would be off."""
    file = tmp_path / "token"
    file.write_text(" \n")
    (line,) = refusals(args(host="0.0.0.0"), GOOD | {"HEADWAY_ADMIN_TOKEN_FILE": str(file)})
    assert line == f"HEADWAY_ADMIN_TOKEN_FILE ({file}): is empty; write the token into it"


@pytest.mark.parametrize("off", ["", "0"])
def test_a_variable_that_is_off_is_no_finding(off: str) -> None:
    """As vLLM reads it."""
    names = ("VLLM_SERVER_DEV_MODE", "VLLM_ALLOW_INSECURE_SERIALIZATION", "VLLM_USE_RUST_FRONTEND")
    assert cautions(args(), GOOD | dict.fromkeys(names, off)) == []
    assert rust_front_end({"VLLM_USE_RUST_FRONTEND": off}) is None


@pytest.mark.parametrize("given", [{"api_server_count": 1}, {"api_server_count": 4, "behind_one_queue": True}])
def test_one_queue_may_have_a_folder_of_batches(given: dict[str, object]) -> None:
    """That of one API server, or that before several."""
    assert refusals(args(**given), GOOD | {"HEADWAY_BATCH_DIR": "/a"}) == []


def test_a_front_end_in_rust_may_start_behind_a_queue() -> None:
    """Of `headway serve`, which has every request pass it."""
    environment = GOOD | {"VLLM_USE_RUST_FRONTEND": "1"}
    assert refusals(args(behind_one_queue=True), environment) == []
    assert refusals(args(), environment | {"HEADWAY_BEHIND_QUEUE": "1"}) == []


def test_one_tenant_may_have_its_responses_stored() -> None:
    """Without a keys file there is no other one to read them."""
    assert refusals(args(), GOOD | {"VLLM_ENABLE_RESPONSES_API_STORE": "1", "HEADWAY_KEYS_FILE": ""}) == []


def test_the_development_mode_may_be_allowed_on_this_machine_only() -> None:
    """The mode is a warning then; a Unix socket is on this machine."""
    allowed = GOOD | {"VLLM_SERVER_DEV_MODE": "1", "HEADWAY_ALLOW_DEV_MODE": "1"}
    for given in ({}, {"host": "::1"}, {"host": "localhost"}, {"host": None, "uds": "/tmp/socket"}):
        assert refusals(args(**given), allowed) == []
        (line,) = warnings(args(**given), allowed)
        assert "they want the operator's token" in line


@pytest.mark.parametrize(
    ("package", "version", "refused"),
    [
        ("vllm", "0.27.9", True), ("vllm", "0.28.0", False), ("vllm", "0.32.0+cpu", False), ("vllm", "", False),
        ("vllm", "0.1.dev7+g1a2b3c", False), ("starlette", "1.0.0", True), ("starlette", "0.52.1", True),
        ("starlette", "1.0.1", False), ("starlette", "1.10.0", False), ("starlette", "", False),
    ],
)  # fmt: skip
def test_versions_that_are_too_old_are_refused(
    package: str, version: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is not known is not; nor is a build without a release."""
    versions = {"vllm": "0.32.0", "starlette": "1.10.0"} | {package: version}
    monkeypatch.setattr(start, "vllm_version", lambda: versions["vllm"])
    monkeypatch.setattr(start, "_version_of", versions.__getitem__)
    assert [version in line for line in refusals(args(), GOOD)] == ([True] if refused else [])


def test_a_server_without_a_keys_file_says_what_holds() -> None:
    """With vLLM's own key, and without any."""
    (line,) = warnings(args(api_key=["k"]), {})
    assert "one tenant and has every class" in line
    assert "headway keys add" in line
    (line,) = warnings(args(), {})
    assert "the tenant anonymous" in line
    assert "HEADWAY_TRUSTED_PROXIES" in line
    assert warnings(args(api_key=None), {"VLLM_API_KEY": "k"}) == warnings(args(api_key=["k"]), {})


def test_other_warnings() -> None:
    """A drain of no time, and a token that crosses a network in the clear."""
    (line,) = warnings(args(shutdown_timeout=0), GOOD)
    assert line.startswith("--shutdown-timeout 0: ")
    assert warnings(args(shutdown_timeout=30), GOOD) == []
    token = GOOD | {"HEADWAY_ADMIN_TOKEN": TOKEN}
    (line,) = warnings(args(host="0.0.0.0"), token)
    assert "without TLS" in line
    assert warnings(args(host="0.0.0.0", ssl_certfile="cert.pem"), token) == []
