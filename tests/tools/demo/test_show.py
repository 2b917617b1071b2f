"""The whole demo with stand-ins for its two children: its checks, and that no process or file remains."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tiers import long_form

pytestmark = pytest.mark.slow

#: A look through all processes of the machine takes as long as many lines of the demo.
LOOK_S = 0.25
SCRIPT = Path(__file__).with_name("stand_in.py")


class Demo:
    """A demo in a process of its own, with a temporary folder of its own."""

    def __init__(self, mode: str, exit_after: str, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.seen: set[psutil.Process] = set()
        with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, str(SCRIPT), "demo", mode, exit_after],
                stdout=out,
                stderr=err,
                env={**os.environ, "TMPDIR": str(tmp_path), "HEADWAY_ADMIN_TOKEN": "of the developer"},
            )

    def out(self) -> str:
        return (self.folder / "out").read_text()

    def err(self) -> str:
        return (self.folder / "err").read_text()

    def wait_for(self, words: str) -> None:
        until_s = time.monotonic() + 240
        while words not in self.out():
            assert self.process.poll() is None, self.out() + self.err()
            assert time.monotonic() < until_s
            self._look()
            time.sleep(LOOK_S)
        self._look()

    def end(self) -> int:
        until_s = time.monotonic() + 240
        while self.process.poll() is None:
            assert time.monotonic() < until_s
            self._look()
            time.sleep(LOOK_S)
        return self.process.returncode

    def left(self) -> list[psutil.Process]:
        assert self.seen, "no child was seen"
        return [one for one in self.seen if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]

    def folders(self) -> list[Path]:
        return list(self.folder.glob("headway-demo-*"))

    def _look(self) -> None:
        try:
            self.seen.update(psutil.Process(self.process.pid).children(recursive=True))
        except psutil.NoSuchProcess:
            return

    def kill(self) -> None:
        if self.process.poll() is None:
            self._look()
            for process in [*self.seen, psutil.Process(self.process.pid)]:
                process.kill()
        self.process.wait()


Start = Callable[[str, str], Demo]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start demos; whatever a failed test leaves is killed."""
    demos: list[Demo] = []

    def starting(mode: str, exit_after: str) -> Demo:
        demos.append(Demo(mode, exit_after, tmp_path))
        return demos[-1]

    yield starting
    for demo in demos:
        demo.kill()


def test_a_run_that_works_is_summed_up_and_leaves_nothing(start: Start) -> None:
    """Traffic of all classes, an overload between two parts of light traffic, one switch: each step is announced, what
    was refused is summed up with the reason, every check holds, and no process and no file remains."""
    demo = start("well", "2.5")
    assert demo.end() == 0, demo.out() + demo.err()
    out = demo.out()
    steps = ["light traffic are over", "measuring", "overload: ", "the overload is over", "switched from", "Summary of"]
    assert [out.index(step) for step in steps] == sorted(out.index(step) for step in steps)
    assert "curl -s http://127.0.0.1:" in out
    assert "preset use throughput --url" in out
    assert "switched from balanced to throughput: 32 -> 64 seats" in out
    assert "balanced (revision 1, 32 seats) -> throughput (revision 2, 64 seats)" in out
    (offered,) = re.findall(r"\n  overload +(\d+) requests in .* without an answer", out)
    counted = re.search(r"realtime (\d+) completed, 0 refused; normal (\d+) .* batch (\d+) .* (\d+) refused", out)
    assert counted is not None
    assert sum(map(int, counted.groups())) == int(offered)
    assert f"(shed {counted[4]})" in out
    assert "; 0 without an answer" in out
    assert "Retry-After 7 s; fallback rungs entered: shed" in out
    served, without = re.findall(r"\n +served +realtime (\d+ of \d+), normal (\d+ of \d+), batch (\d+) of (\d+)", out)
    assert (served[0].split()[0], served[1].split()[0], served[2]) == counted.groups()[:3]
    assert without[:2] == served[:2], "all of it is served by vLLM alone, at some time"
    assert without[2] == without[3] == served[3]
    assert "FAILED" not in out
    assert out.count("\n  ok ") == 11
    assert demo.left() == []
    assert demo.folders() == []


@long_form("the first test has the overload, the next ones a demo that is interrupted")
def test_an_endless_demo_has_one_overload_and_a_summary_when_it_is_interrupted(start: Start) -> None:
    """After the overload the light traffic goes on; Ctrl-C then prints what has been counted, without checks."""
    demo = start("short", "-")
    demo.wait_for("Light traffic goes on")
    demo.process.send_signal(signal.SIGINT)
    assert demo.end() == 0, demo.err()
    summary = demo.out().partition("Summary of")[2]
    assert "without an answer" in summary
    assert "shed" in summary
    assert "  ok " not in summary
    assert "Stopped; no process is left." in summary
    assert demo.left() == []
    assert demo.folders() == []


def test_counts_that_disagree_fail_the_run_and_are_named(start: Start) -> None:
    """The client's count is compared with the server's; here as JSON."""
    demo = start("miscount", "2")
    assert demo.end() == 1
    answer = json.loads(demo.out())
    assert not answer["ok"]
    missed = [one["promise"] for one in answer["checks"] if not one["held"]]
    assert "the server counted what the clients saw" in missed  # a busy machine may turn the order of classes as well


def test_a_signal_stops_everything_even_what_does_not_listen(start: Start) -> None:
    """A child and a grandchild that ignore SIGTERM are killed; the endless demo ends with success."""
    demo = start("stubborn", "-")
    demo.wait_for("Light traffic")
    assert len(demo.seen) >= 3
    token = next(demo.folder.glob("headway-demo-*/admin.token"))
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.parent.stat().st_mode & 0o777 == 0o700
    demo.process.send_signal(signal.SIGTERM)
    assert demo.end() == 0, demo.err()
    assert "Stopped; no process is left." in demo.out()
    assert demo.left() == []
    assert demo.folders() == []


def test_a_run_that_was_to_check_something_and_was_interrupted_is_no_success(start: Start) -> None:
    """130, as shells count."""
    demo = start("well", "60")
    demo.wait_for("Light traffic")
    demo.process.send_signal(signal.SIGINT)
    assert demo.end() == 130
    assert demo.left() == []


@pytest.mark.parametrize(
    ("mode", "line"),
    [
        ("broken", "headway: error: the server ended with exit code 1: the engine did not start: no memory; the logs"),
        pytest.param(
            "crash",
            "headway: error: the server ended with exit code 9; the logs",
            marks=long_form("a broken server is reported the same way, and test_children has one that says nothing"),
        ),
    ],
)
def test_a_server_that_exits_by_itself_is_reported_with_the_end_of_its_log(mode: str, line: str, start: Start) -> None:
    """The tail, one clear line, exit code 1; the logs stay, the token does not."""
    demo = start(mode, "60")
    assert demo.end() == 1
    err = demo.err()
    assert "The last lines of server.log:" in err
    assert line in err
    (folder,) = demo.folders()
    assert sorted(file.name for file in folder.iterdir())[-1] == "server.log"
    assert not (folder / "admin.token").exists()
    assert demo.left() == []
