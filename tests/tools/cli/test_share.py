"""``headway share`` against servers with Headway's own admission and admin API around a fake engine."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
import requests
from live_stand_in import TOKEN, LiveStandIn
from running_server import Scrape, wait_until
from tcp_servers import closed_address

from headway.api import AdminClient
from headway_policies import bundled_presets
from headway_tools.cli import main
from headway_tools.sharing.server import SharedServer

BALANCED = bundled_presets()["balanced"]


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator of the stand-ins."""
    monkeypatch.setenv("HEADWAY_ADMIN_TOKEN", TOKEN)


@pytest.fixture
def busy() -> Iterator[LiveStandIn]:
    """A server with more users than seats."""
    with LiveStandIn(clients=60) as running:
        yield running


@pytest.fixture
def idle() -> Iterator[LiveStandIn]:
    """A server at rest."""
    with LiveStandIn() as running:
        yield running


def share_until(holds: Callable[[], bool], number: int, *words: str) -> int:
    """Run it in this thread, and send this process the signal as soon as this is so."""
    never: list[AssertionError] = []

    def end() -> None:
        try:
            wait_until(holds, "the servers are as they should be")
        except AssertionError as error:
            never.append(error)
        os.kill(os.getpid(), number)

    waiting = threading.Thread(target=end)
    waiting.start()
    try:
        return main(["share", *words])
    finally:
        waiting.join(150)
        assert never == []


def seats(server: LiveStandIn) -> int:
    return server.preset.batching.seats


def state(server: LiveStandIn) -> str:
    with AdminClient(server.url, TOKEN) as client:
        return client.status().state


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)], ids=["SIGTERM", "Ctrl-C"])
def test_the_busy_server_gets_the_seats_until_the_end_gives_them_back(
    number: int, code: int, busy: LiveStandIn, idle: LiveStandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    """All but one, which is the idle one's; the audit logs say who ordered it."""
    words = ("--server", busy.url, "--server", idle.url, "--seats", "24", "--actor", "ann")
    assert share_until(lambda: (seats(busy), seats(idle)) == (23, 1), number, *words) == code
    for server in (busy, idle):
        assert (server.preset, server.control.limits.in_force) == (BALANCED, None)
        assert {one.actor for one in server.control.audit.entries(50)} == {"ann"}
    assert "23 seats" in capsys.readouterr().out


@pytest.mark.slow
def test_json_has_a_line_for_each_change(
    busy: LiveStandIn, idle: LiveStandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the URL of the server; a weight changes the shares of what both want."""
    words = ("--server", f"{busy.url}=3", "--server", idle.url, "--seats", "24", "--json")
    assert share_until(lambda: seats(busy) == 23, signal.SIGTERM, *words) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-1][busy.url]["seats"] == 23
    assert lines[-1][idle.url]["seats"] == 1
    assert {url for line in lines for url in line} == {busy.url, idle.url}


@pytest.mark.slow
def test_its_metrics_are_served_while_it_runs(busy: LiveStandIn, idle: LiveStandIn) -> None:
    """On a port that is refused where another program has it, before anything is ordered."""
    words = ("--server", busy.url, "--server", idle.url, "--seats", "24", "--metrics-port")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["share", *words, str(port)]) == 2
        assert (busy.orders, idle.orders) == ([], [])
    name = busy.url.removeprefix("http://")

    def shown() -> bool:
        try:
            page = Scrape(requests.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text)
        except requests.ConnectionError:
            return False
        seats = {one.labels["server"]: one.value for one in page.samples if one.name == "headway_share_seats"}
        return page("headway_share_total_seats") == 24 and seats.get(name) == 23

    assert share_until(shown, signal.SIGTERM, *words, str(port)) == 0


@pytest.mark.slow
def test_a_peak_of_memory_of_one_pauses_the_other(idle: LiveStandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """Though nothing waits anywhere, and until the end."""
    with LiveStandIn() as urgent:

        def paused() -> bool:
            if idle.orders and urgent.orders:
                urgent.control.memory.host_usage_ratio = 0.95
            return state(idle) == "paused"

        words = ("--server", urgent.url, "--server", idle.url, "--urgent", urgent.url, "--pause", idle.url)
        assert share_until(paused, signal.SIGTERM, *words, "--seats", "24") == 0
        assert (state(urgent), state(idle)) == ("open", "open")
    assert " seats, paused" in capsys.readouterr().out


@pytest.mark.slow
def test_a_server_that_dies_does_not_end_it(
    busy: LiveStandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The death is reported, and a limit not given back is the exit code."""
    looks: list[int] = []
    look = SharedServer.look

    def counted(self: SharedServer) -> object:
        looks.append(1)
        return look(self)

    monkeypatch.setattr(SharedServer, "look", counted)
    with LiveStandIn() as dying:
        url = dying.url

        def dead() -> bool:
            if seats(dying) == 1 and dying._thread.is_alive():
                dying.__exit__(None, None, None)
                looks.clear()
            return not dying._thread.is_alive() and len(looks) > 6

        code = share_until(dead, signal.SIGTERM, "--server", busy.url, "--server", url, "--seats", "24")
    assert code == 1
    error = capsys.readouterr().err
    assert f"warning: {url}: The server is not reachable." in error
    assert f"warning: {url}: not given back" in error
    assert busy.preset == BALANCED


def test_no_server_is_there_at_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing can be shared then."""
    urls = [f"http://{closed_address()}" for _ in range(2)]
    assert main(["share", "--server", urls[0], "--server", urls[1], "--seats", "24"]) == 3
    assert "no server answers" in capsys.readouterr().err


@pytest.mark.slow
def test_a_server_that_is_not_there_at_the_start_is_waited_for(
    busy: LiveStandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others have all seats; nothing is left to give back there."""
    away = f"http://{closed_address()}"
    words = ("--server", busy.url, "--server", away, "--seats", "24")
    assert share_until(lambda: seats(busy) == 24, signal.SIGTERM, *words) == 0
    error = capsys.readouterr().err
    assert f"warning: {away}: " in error
    assert "It has its share as soon as it answers." in error
    assert busy.preset == BALANCED


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--server", "a"], "--server: a URL such as"),
        (["--server", "http://a:1=x"], "--server: a weight is a number above 0"),
        (["--server", "http://a:1", "--urgent", "http://a:2"], "--urgent: a:2 is not given as --server"),
        (["--server", "http://a:1", "--pause", "http://b:1"], "--pause: b:1 is not given as --server"),
        (["--server", "http://a:1,http://a:2,http://a:3"], "3 servers need a seat each: at most 2"),
        (["--server", "http://a:1", "--seats", "0"], "a number of seats from 1 to 65536 is needed"),
        ([], "--server"),
    ],
    ids=["no URL", "weight", "urgent", "pause", "too few seats", "no seats", "no server"],
)
def test_wrong_words_are_named(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line, and before anything is ordered."""
    assert main(["share", "--seats", "2", *words]) == 2
    assert complaint in capsys.readouterr().err
