from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from handler_server import Answer, Asked, answering

from headway.router.addresses import read_addresses
from headway_tools.cli import share
from headway_tools.console.parser import Parser
from headway_tools.sharing.server import EXPIRES_S

UNITS = ("headway.service", "headway@.service", "headway-dashboard.service", "headway-share.service")


@pytest.fixture(scope="module")
def folder(root: Path) -> Path:
    return root / "deploy" / "systemd"


def value(unit: str, key: str) -> str:
    return next(line.partition("=")[2] for line in unit.splitlines() if line.startswith(f"{key}="))


def seconds(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(s|min)", text).groups()  # type: ignore[union-attr]  # a test fails on None
    return int(number) * {"s": 1, "min": 60}[unit]


def test_systemd_accepts_the_units(folder: Path, tmp_path: Path, tool: Callable[[str], str]) -> None:
    """`systemd-analyze verify` finds no unknown key and no program that is not there."""
    analyze = tool("systemd-analyze")
    for name in UNITS:
        here = (folder / name).read_text().replace("/opt/headway/.venv/bin", str(Path(sys.executable).parent))
        (tmp_path / name).write_text(here)
    done = subprocess.run(
        [analyze, "verify", *(str(tmp_path / name) for name in UNITS)], capture_output=True, text=True, check=False
    )
    issues = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "headway" in line]
    assert (done.returncode, issues) == (0, [])


@pytest.mark.parametrize(
    ("name", "exposure"),
    [
        ("headway.service", 4.0),
        ("headway@.service", 4.0),
        ("headway-dashboard.service", 2.0),
        ("headway-share.service", 2.0),
    ],
)
def test_the_units_stay_hardened(name: str, exposure: float, folder: Path, tool: Callable[[str], str]) -> None:
    """systemd's own score, 0 (shut) to 10 (open), does not creep up."""
    command = [tool("systemd-analyze"), "security", "--offline=true", "--no-pager", str(folder / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    score = re.search(r"exposure level for .*?: ([\d.]+)", done.stdout)
    if score is None:
        pytest.skip("this systemd-analyze cannot score a unit that is not loaded")
    assert float(score[1]) <= exposure


def test_there_is_time_to_drain(folder: Path) -> None:
    """systemd waits longer than vLLM may take to finish what runs, and stops with the signal vLLM drains on."""
    unit = (folder / "headway.service").read_text()
    drain_s = int(re.search(r"--shutdown-timeout (\d+)", unit)[1])  # type: ignore[index]  # a test fails on None
    assert seconds(value(unit, "TimeoutStopSec")) > drain_s
    assert value(unit, "KillSignal") == "SIGTERM"
    assert value(unit, "Restart") == "always"


@pytest.mark.parametrize("name", ["headway.service", "headway@.service"])
def test_a_process_killed_for_want_of_memory_ends_no_other(name: str, folder: Path) -> None:
    """Headway replaces an engine, and other API servers serve on; with the main process the unit ends and restarts."""
    unit = (folder / name).read_text()
    assert (value(unit, "OOMPolicy"), value(unit, "Restart")) == ("continue", "always")


def test_every_variable_of_the_unit_is_in_the_example(folder: Path) -> None:
    """A new variable must not be forgotten in the file people copy."""
    unit = (folder / "headway.service").read_text()
    used = set(re.findall(r"\$\{?(HEADWAY_\w+)", unit))
    example = (folder / "server.env.example").read_text()
    assert used == set(re.findall(r"^(HEADWAY_\w+)=", example, re.MULTILINE))


def test_the_template_is_the_server_but_for_its_names(folder: Path) -> None:
    """A line that is changed in one of them is changed in the other."""
    plain, template = (
        [line for line in (folder / name).read_text().splitlines() if not line.startswith("#")]
        for name in ("headway.service", "headway@.service")
    )
    own = [(one, other) for one, other in zip(plain, template, strict=True) if one != other]
    assert [other.replace(": %i", "").replace("-%i", "").replace("%i", "server") for _, other in own] == [
        one for one, _ in own
    ]
    assert len(own) == 3


def test_the_share_is_understood_and_finds_the_servers(folder: Path) -> None:
    """The words of the unit with the values of the example are those of `headway share`, and each variable has one."""
    example = dict(re.findall(r"^(HEADWAY_\w+)=(.*)$", (folder / "share.env.example").read_text(), re.MULTILINE))
    command = value((folder / "headway-share.service").read_text(), "ExecStart")
    assert set(re.findall(r"\$\{?(HEADWAY_\w+)", command)) == set(example)
    words = re.sub(r"\$\{?(HEADWAY_\w+)\}?", lambda found: example[found[1]], command).split()
    assert words[:2] == ["/opt/headway/.venv/bin/headway", "share"]
    parser = Parser()
    share.configure(parser)
    chosen = parser.parse_args(words[2:])
    servers = {one.url for one in read_addresses(chosen.server, "--server")}
    assert len(servers) == 2
    assert f"http://127.0.0.1:{value((folder / 'server.env.example').read_text(), 'HEADWAY_PORT')}" in servers
    assert {*chosen.urgent, *chosen.pause} <= servers
    assert chosen.seats >= len(servers)


def test_the_share_has_time_to_give_everything_back(folder: Path) -> None:
    """And begins again until the servers answer, however long their warm-up takes."""
    unit = (folder / "headway-share.service").read_text()
    assert value(unit, "KillSignal") == "SIGTERM"
    assert seconds(value(unit, "TimeoutStopSec")) >= EXPIRES_S
    assert (value(unit, "Restart"), value(unit, "StartLimitIntervalSec")) == ("always", "0")


def wait_command(folder: Path, port: str, main_pid: int) -> list[str]:
    """ExecStartPost as systemd would run it: variables replaced, quotes removed."""
    text = value((folder / "headway.service").read_text(), "ExecStartPost")
    words = {"${HEADWAY_HOST}": "127.0.0.1", "${HEADWAY_PORT}": port, "${MAINPID}": str(main_pid)}
    for variable, replacement in words.items():
        text = text.replace(variable, replacement)
    return shlex.split(text)


@pytest.mark.slow
def test_the_unit_has_started_when_the_server_is_ready(folder: Path, tool: Callable[[str], str]) -> None:
    """`systemctl start` returns when readyz says 200, not when the process exists."""
    tool("curl")
    asked: list[str] = []

    def readiness(request: Asked) -> Answer:
        asked.append(request.path)
        return Answer(200 if len(asked) >= 3 and request.path == "/headway/readyz" else 503)

    with answering(readiness) as url:
        done = subprocess.run(wait_command(folder, url.rpartition(":")[2], os.getpid()), timeout=30, check=False)
    assert (done.returncode, len(asked)) == (0, 3)


def test_the_unit_does_not_wait_for_a_server_that_died(folder: Path, tool: Callable[[str], str]) -> None:
    """A server that cannot start fails the unit at once instead of after 30 minutes."""
    tool("curl")
    gone = subprocess.Popen(["true"])
    gone.wait()
    command = wait_command(folder, "1", gone.pid)
    assert subprocess.run(command, timeout=30, check=False, stderr=subprocess.DEVNULL).returncode == 1
