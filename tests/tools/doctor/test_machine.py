"""The doctor's checks of the machine."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from headway.checks.finding import Severity, ok
from headway_tools.console import Machine
from headway_tools.doctor import check_machine, machine

GIB = 2**30


def of(cpus: float = 8.0, free: float = 64.0, limit: float | None = None) -> Machine:
    """A machine with so many processors and GiB."""
    group = None if limit is None else int(limit * GIB)
    return Machine(tuple(range(int(cpus) or 1)), cpus, (int(free * GIB),), group, compiles=True)


@pytest.mark.parametrize(("cpus", "severity"), [(1.0, "warn"), (1.5, "warn"), (2.0, "ok")])
def test_one_core_is_too_few(cpus: float, severity: str) -> None:
    """A quota of processor time counts as cores."""
    assert machine.check_cores(of(cpus)).severity == severity


@pytest.mark.parametrize(
    ("free", "limit", "severity"), [(64, None, "ok"), (64, 3, "warn"), (64, 1, "fail"), (1.9, None, "fail")]
)
def test_free_memory_is_what_the_control_group_leaves(free: float, limit: float | None, severity: str) -> None:
    """The limit is named where there is one."""
    found = machine.check_memory(of(free=free, limit=limit))
    assert found.severity == severity
    assert ("control group" in found.what) is (limit is not None)


def gpu(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str | None) -> None:
    """vLLM's GPU build, and this ``nvidia-smi``."""
    monkeypatch.setattr(machine, "cpu_backend", lambda: False)
    monkeypatch.setenv("PATH", str(folder))
    if script is not None:
        program = folder / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)


@pytest.mark.parametrize(
    ("script", "severity", "words"),
    [
        ("echo 'NVIDIA H100, 81559 MiB, 81000 MiB, 570.1'", "ok", "GPU NVIDIA H100"),
        ("true", "fail", "shows no GPU"),
        ("echo 'driver mismatch' >&2; exit 9", "fail", "driver mismatch"),
        (None, "fail", "nvidia-smi is not there"),
    ],
)
def test_gpus_are_those_that_the_driver_shows(
    script: str | None, severity: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """None, or a driver that fails, has a remedy."""
    gpu(monkeypatch, tmp_path, script)
    (found,) = machine.check_gpu({})
    assert found.severity == severity
    assert words in found.what
    assert bool(found.remedy) is (severity != "ok")


def test_gpus_that_are_hidden_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The driver shows them all the same."""
    gpu(monkeypatch, tmp_path, "echo 'NVIDIA H100'")
    assert [one.severity for one in machine.check_gpu({"CUDA_VISIBLE_DEVICES": ""})] == ["ok", "fail"]
    assert [one.severity for one in machine.check_gpu({"CUDA_VISIBLE_DEVICES": "0"})] == ["ok"]


def test_the_cpu_build_wants_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """No driver is asked."""
    monkeypatch.setattr(machine, "has_vllm", lambda: True)
    monkeypatch.setattr(machine, "cpu_backend", lambda: True)
    monkeypatch.setenv("PATH", "")
    assert [one.severity for one in machine.check_gpu({})] == ["ok"]


@pytest.mark.parametrize(("free", "severity"), [(100.0, "ok"), (2.0, "warn"), (0.1, "fail")])
def test_the_disk_of_the_compile_cache(
    free: float, severity: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The disk is that of the nearest folder that is there."""
    asked: list[Path] = []

    def usage(folder: Path) -> SimpleNamespace:
        asked.append(folder)
        return SimpleNamespace(free=int(free * GIB))

    monkeypatch.setattr(shutil, "disk_usage", usage)
    assert machine.check_disk(tmp_path / "not" / "there").severity == severity
    assert asked == [tmp_path]


def test_the_folder_of_the_caches_is_vllms() -> None:
    """In the order in which vLLM looks."""
    assert machine.cache_folder({"VLLM_CACHE_ROOT": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a")
    assert machine.cache_folder({"XDG_CACHE_HOME": "/b"}) == Path("/b/vllm")
    assert machine.cache_folder({}) == Path.home() / ".cache" / "vllm"


def test_a_taken_port_fails_with_the_way_to_another() -> None:
    """The remedy is a line of its own."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = machine.check_port(["m", "--host", "127.0.0.1", "--port", str(port)])
    assert found.severity is Severity.FAIL
    assert found.what.startswith(f"port {port} is in use")
    assert found.remedy == f"choose another with --port {port + 1 if port < 65535 else 8000}"


def test_all_checks_of_a_machine(tmp_path: Path) -> None:
    """The port only where a server is to be started, the KV space only where it is chosen."""
    environment = {"VLLM_CACHE_ROOT": str(tmp_path)}
    words = ["m", "--uds", str(tmp_path / "socket")]
    whole = list(check_machine(of(), words, environment, ok("KV"), port=True))
    part = list(check_machine(of(), words, environment, None, port=False))
    assert len(whole) == len(part) + 2
