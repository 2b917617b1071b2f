"""The checks before vLLM is imported."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway_tools.console import preflight
from headway_tools.console.exits import UsageError


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A loopback port that is in use."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def test_a_taken_port_is_named_with_the_way_to_another(taken_port: int) -> None:
    """The line says which port and which flag."""
    with pytest.raises(UsageError, match=rf"port {taken_port} is in use .*--port {taken_port + 1}"):
        preflight.check_address(["m", "--host", "127.0.0.1", "--port", str(taken_port)])


def test_a_taken_port_is_seen_from_all_addresses(taken_port: int) -> None:
    """vLLM listens on every address by default, so one taken address is enough."""
    with pytest.raises(UsageError, match="is in use"):
        preflight.check_address(["m", f"--port={taken_port}"])


def test_a_free_port_passes_and_is_let_go(free_port: int) -> None:
    """The check leaves nothing bound."""
    for _ in range(2):
        preflight.check_address(["m", "--host", "127.0.0.1", "--port", str(free_port)])


@pytest.mark.parametrize("port", ["0", "65536", "x", "-1", "8000 "])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    """A number from 1 to 65535."""
    with pytest.raises(UsageError, match="--port must be a number"):
        preflight.check_address(["m", f"--port={port}"])


def test_an_address_of_another_machine_is_refused(free_port: int) -> None:
    """192.0.2.0/24 is reserved for documentation (RFC 5737)."""
    with pytest.raises(UsageError, match="no address of this machine"):
        preflight.check_address(["m", "--host", "192.0.2.77", "--port", str(free_port)])


@pytest.mark.parametrize("host", ["127.0..1", ".example", 70 * "a" + ".example"])
def test_a_host_that_is_none_is_refused(host: str, free_port: int) -> None:
    """What no name of a machine can be."""
    with pytest.raises(UsageError, match="is no name or address"):
        preflight.check_address(["m", "--host", host, "--port", str(free_port)])


def test_a_socket_file_that_exists_is_refused(tmp_path: Path) -> None:
    """vLLM does not remove it, and neither does Headway."""
    file = tmp_path / "s"
    preflight.check_address(["m", "--uds", str(file)])
    file.touch()
    with pytest.raises(UsageError, match="exists already"):
        preflight.check_address(["m", "--uds", str(file)])


def test_an_address_in_a_config_file_is_not_checked(taken_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headway does not read the file, so the default port is not reported for it."""
    monkeypatch.setattr(preflight, "VLLM_PORT", taken_port)
    preflight.check_address(["m", "--config", "f.yaml"])
    with pytest.raises(UsageError):
        preflight.check_address(["m"])


@pytest.mark.parametrize("model", ["/no/such", "./no-such", "../no-such", "~/no-such-model"])
def test_a_local_model_that_is_missing_is_refused(model: str) -> None:
    """The name looks like a path, so it is no name on a hub."""
    with pytest.raises(UsageError, match="no such model"):
        preflight.check_model([model], {})


def test_a_model_on_the_hub_passes_unless_the_hub_is_off(tmp_path: Path) -> None:
    """Offline, a name must be a folder here or in the cache."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    preflight.check_model(["org/name"], {"HF_HOME": str(tmp_path)})
    with pytest.raises(UsageError, match="HF_HUB_OFFLINE"):
        preflight.check_model(["org/name"], offline)
    (tmp_path / "hub" / "models--org--name").mkdir(parents=True)
    preflight.check_model(["org/name"], offline)
    preflight.check_model(["s3://bucket/name"], offline)
    preflight.check_model([str(tmp_path)], offline)


def test_no_model_is_refused_unless_a_config_file_may_name_one() -> None:
    """vLLM would download a default model that was not asked for."""
    with pytest.raises(UsageError, match="no MODEL given"):
        preflight.check_model(["--port", "1"], {})
    preflight.check_model(["--config", "f.yaml"], {})


def test_missing_vllm_is_reported_with_the_way_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """``pip install`` alone brings no engine."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"install it with: .*\[gpu\].* or .*\[cpu\]"):
        preflight.check_vllm()


def test_an_environment_that_no_server_can_start_with_is_refused_before_anything_loads() -> None:
    """With every fault, each in words that name the variable; an unset one is none."""
    preflight.check_variables({})
    wrong = {
        "HEADWAY_VIEWER_TOKEN": "s" * 31,
        "HEADWAY_FALLBACK_REPLY": "",
        "HEADWAY_SCALE_MIN": "3",
        "HEADWAY_SCALE_MAX": "2",
        "HEADWAY_MAX_BODIES_BYTES": "1",
        "HEADWAY_STATUS_CODES": "mine",
    }
    with pytest.raises(UsageError) as caught:
        preflight.check_variables(wrong)
    for said in (
        "HEADWAY_VIEWER_TOKEN: a token of 32 to 512 printable ASCII characters without spaces is needed, not 31",
        "HEADWAY_FALLBACK_REPLY: a text of 1 to 4096 characters",
        "HEADWAY_SCALE_MAX: at least HEADWAY_SCALE_MIN = 3 is needed",
        "HEADWAY_MAX_BODIES_BYTES: at least HEADWAY_MAX_BODY_BYTES",
        "HEADWAY_STATUS_CODES: headway or vllm is needed, not 'mine'",
    ):
        assert str(caught.value).count(said) == 1
    assert "sss" not in str(caught.value)
