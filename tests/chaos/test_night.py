"""A night on one real server: at each of its moments the first screen says what an independent script reads.

The script knows the bare text of ``/metrics`` and the faults that it has caused itself, and nothing of the product.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import streamlit as st
from app_pages import class_rows, clear_settings, opened, refresh_until, tiles, words
from engine_parts import engine_core, engine_processes, kill, long_form, ready
from kept_load import Clients, kept_load
from live_stand_in import TOKEN, LiveStandIn
from prometheus_process import running_prometheus, scraping
from raw_metrics import FINE, Look, RawMetrics, Spread
from running_server import RunningServer, wait_until
from streamlit.testing.v1 import AppTest

CLASSES = ("realtime", "normal", "batch")
LIGHT = [Clients(1, "realtime", 20, pause_s=1.0), Clients(1, "normal", 20, pause_s=1.5)]
#: More of every class than two seats and twelve places can hold.
OVERLOAD = [Clients(7, name, 300) for name in CLASSES]
#: A flood of one class beside light traffic of another.
FLOOD = [Clients(12, "batch", 300), Clients(1, "realtime", 20, pause_s=1.0)]
WINDOW_S, INTERVAL_S = 30.0, 4.0
#: Words with which the first screen calls a server fine.
FINE_WORDS = ("ok", "watch")


@dataclass(frozen=True, slots=True)
class Seen:
    """What the first screen shows: the severity and the sentence of the band, the tiles, and the table by class."""

    severity: str
    sentence: str
    tiles: dict[str, str]
    rows: dict[str, dict[str, str]]

    def number(self, label: str) -> float | None:
        """The number of a tile; None where it shows none."""
        found = re.search(r"[\d.,]+", self.tiles.get(label, ""))
        return None if found is None else float(found[0].replace(",", ""))


class BothMetrics:
    """The looks at two servers as one: each of the first with the one of the second that is nearest in time."""

    def __init__(self, first: RawMetrics, second: RawMetrics) -> None:
        self._first, self._second = first, second

    @property
    def looks(self) -> list[Look]:
        """Those of both."""
        others = self._second.looks[:]
        return [
            Look(one.time_s, [*one.samples, *min(others, key=lambda other: abs(other.time_s - one.time_s)).samples])
            for one in self._first.looks[:]
        ]


class Night:
    """The server, its first screen, and the script that looks at the bare metrics."""

    def __init__(self, server: RunningServer, app: AppTest, raw: RawMetrics | BothMetrics) -> None:
        self.server, self.app, self.raw = server, app, raw

    def seen(self) -> Seen:
        """The first screen as it is drawn now."""
        bands = [one.value for one in self.app.markdown if str(one.value).startswith("#### ")]
        assert bands, words(self.app)
        found = re.match(r"#### (?::\w+-badge\[(\w+)\] )?(.*)", str(bands[0]).replace("\\", "").replace("\xa0", " "))
        assert found is not None, bands
        why = [str(one.value).replace("\\", "").replace("\xa0", " ") for one in self.app.markdown]
        also = next((text for text in why if text.startswith("**Why:**")), "")
        rows = {row["Class"]: row for row in class_rows(self.app)}
        return Seen(found[1] or "", f"{found[2]} {also}".strip(), tiles(self.app), rows)

    def until(self, what: str, wrong: Callable[[Seen], list[str]]) -> Seen:
        """Refresh the first screen until nothing on it is wrong, for a minute at most."""
        last: list[str] = []

        def agrees() -> bool:
            nonlocal last
            assert not self.app.exception
            last = wrong(self.seen())
            return not last

        try:
            self.app.run()
            refresh_until(self.app, agrees)
        except AssertionError as error:
            raise AssertionError(f"{what}: {last}\n{self.seen()}") from error
        return self.seen()

    # ------------------------------------------------------------------ the script's own look

    def windows(self) -> list[tuple[Look, Look]]:
        """The windows that a page of now may mean."""
        looks = self.raw.looks[:]
        ends = [look for look in looks if look.time_s >= looks[-1].time_s - INTERVAL_S]
        return [
            (first, last)
            for last in ends
            for first in looks
            if abs(first.time_s - (last.time_s - WINDOW_S)) <= INTERVAL_S
        ]

    def counts(self, name: str) -> tuple[Spread, Spread]:
        """The requests of a class that ended in a window, and those of them that got no answer."""
        ended, failed = [], []
        for first, last in self.windows():
            grown = {
                outcome: last.total("headway_outcomes_total", **{"class": name}, **labels)
                - first.total("headway_outcomes_total", **{"class": name}, **labels)
                for outcome, labels in [("", {}), *((fine, {"outcome": fine}) for fine in FINE)]
            }
            ended.append(grown[""])
            failed.append(2 * grown[""] - sum(grown.values()))
        return Spread(min(ended), max(ended)), Spread(min(failed), max(failed))

    def disagreements(self, seen: Seen) -> list[str]:
        """Each figure of the first screen that differs from the bare metrics, and each class blamed wrongly."""
        wrong = []
        gauges = [look.total("headway_queue_depth") for look in self.raw.looks[-6:]]
        waiting = seen.number("Waiting")
        if waiting is None or not min(gauges) - 1 <= waiting <= max(gauges) + 1:
            wrong.append(f"waiting {waiting}, but {gauges}")
        hit, spared = [], []
        for name in CLASSES:
            ended, failed = self.counts(name)
            shown = re.search(r"\((\d+) of (\d+)\)", seen.rows.get(name, {}).get("No answer", ""))
            if shown is not None and not (failed.holds(float(shown[1]), one=1) and ended.holds(float(shown[2]), one=1)):
                wrong.append(f"{name}: {shown[0]}, but {failed} of {ended}")
            if shown is None and failed.low >= 2:
                wrong.append(f"{name}: no count, but {failed} of {ended}")
            if failed.low >= 2 and failed.low > 0.05 * ended.high:
                hit.append(name)
            elif failed.high == 0:
                spared.append(name)
        if hit and seen.severity in FINE_WORDS:
            wrong.append(f"{seen.severity}, but {hit} get no answers")
        if hit and not any(name in seen.sentence for name in hit):
            wrong.append(f"the sentence names none of {hit}")
        blamed = re.match(r"(\w+):? .*(?:refused|without an answer|no answer)", seen.sentence)
        if blamed is not None and blamed[1] in spared:
            wrong.append(f"the sentence blames {blamed[1]}")
        return wrong


@pytest.fixture
def night(real_engine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Night]:
    """A server of two seats, and its Overview."""
    clear_settings(monkeypatch)
    server = RunningServer.headway(tmp_path / "server.log", "--preset", "night", "--no-warmup")
    server.token = TOKEN
    with server, RawMetrics(server.url).watching() as raw:
        monkeypatch.setenv("HEADWAY_URL", server.url)
        monkeypatch.setenv("HEADWAY_ADMIN_TOKEN", server.token)
        wait_until(lambda: raw.span_s() > WINDOW_S + INTERVAL_S, "the script has looked for a window")
        yield Night(server, opened(""), raw)
    st.cache_resource.clear()


@contextmanager
def loaded(night: Night, groups: list[Clients]) -> Iterator[None]:
    """A load that has lasted for a whole window."""
    with kept_load(night.server.url, groups):
        began_s = night.raw.looks[-1].time_s
        wait_until(lambda: night.raw.looks[-1].time_s - began_s > WINDOW_S + INTERVAL_S, "a window of this load")
        yield


def says(night: Night, *parts: str) -> Callable[[Seen], list[str]]:
    """A check that the page says all of this."""
    return lambda _: [f"no word of {part!r}" for part in parts if part not in words(night.app)]


def is_called(*severities: str, for_: str = "") -> Callable[[Seen], list[str]]:
    """A check of the severity, and of a word of its cause: a page that lags behind has that of the moment before."""

    def wrong(seen: Seen) -> list[str]:
        found = [] if seen.severity in severities else [f"severity {seen.severity!r}"]
        return found if for_ in seen.sentence.lower() else [*found, f"{for_!r} is no cause"]

    return wrong


def idles(night: Night) -> None:
    """Nothing is wrong without a request, or with few."""
    night.until("idle", lambda seen: night.disagreements(seen) + is_called("ok")(seen))


def overloads(night: Night) -> None:
    """All classes get too little; then one floods the server beside another, which is not to be blamed."""
    with loaded(night, OVERLOAD):
        seen = night.until("overload of every class", night.disagreements)
        assert seen.severity in ("overloaded", "degraded"), seen
    with loaded(night, FLOOD):
        seen = night.until("a flood of batch", night.disagreements)
        assert "batch" in seen.sentence, seen
        assert "realtime" not in seen.sentence.split(".")[0], seen
    night.server.settle()


def is_paused(night: Night) -> None:
    """By a person, for a reason."""
    server = night.server
    assert server.admin("POST", "pause", json={"reason": "the disk", "actor": "ann"}).status_code == 200
    night.until("a pause", says(night, "The server is paused", "ann", "the disk"))
    assert server.admin("POST", "resume", json={}).status_code == 200


def loses_its_engine(night: Night) -> None:
    """It is killed, and the next one is stopped for a while."""
    server = night.server
    with kept_load(server.url, LIGHT):
        kill(engine_core(server))
        night.until("a killed engine", is_called("down", for_="engine"))
        wait_until(lambda: ready(server), "the engine is replaced", 300)
    night.until("after the replacement", is_called(*FINE_WORDS))
    stopped = engine_processes(server)
    with kept_load(server.url, LIGHT):
        for process in stopped:
            process.suspend()
        try:
            night.until("a hang", is_called("down", for_="does not respond"))
        finally:
            for process in stopped:
                process.resume()
        wait_until(lambda: ready(server), "the engine goes on", 120)
    night.until("after the hang", is_called(*FINE_WORDS))


def is_switched(night: Night) -> None:
    """For good, and on trial, which the server takes back by itself."""
    server = night.server
    server.use("balanced")
    revision = server.status()["preset"]["revision"]
    night.until("a switch", says(night, f"balanced · revision {revision}"))
    trial = {"name": "latency", "revert_after_s": 20, "reason": "a trial", "actor": "ann"}
    answer = server.admin("PUT", "preset", json=trial, headers={"If-Match": f'"{revision}"'})
    assert answer.status_code == 200, answer.text
    night.until("a trial", says(night, f"latency · revision {revision + 1}", "The preset latency is on trial"))
    wait_until(lambda: server.status()["preset"]["name"] == "balanced", "the trial is over")
    night.until("the trial is reverted", says(night, f"balanced · revision {revision + 2}"))
    assert "is on trial" not in words(night.app)


def is_scraped(night: Night, folder: Path) -> None:
    """By a Prometheus, which ends: then the page says that it has the figures from the server itself."""
    with pytest.MonkeyPatch.context() as patch:
        with running_prometheus(folder, scraping(folder, [night.server.url])) as prometheus:
            patch.setenv("HEADWAY_PROMETHEUS_URL", prometheus)
            night.app = opened("")
            night.until("by Prometheus", says(night, "badge[Prometheus]"))
        night.until("Prometheus is down", says(night, "badge[direct scrape]", "showing the direct scrape instead"))
        idles(night)


@long_form("tests/browser/test_real_server compares tiles of one server; each fault has a test of its own")
def test_the_first_screen_says_what_the_metrics_say_all_night(night: Night, tmp_path: Path) -> None:
    """Idle, light load, two overloads, a pause, a kill, a hang, a switch, a trial, Prometheus, and the end."""
    idles(night)
    with loaded(night, LIGHT):
        idles(night)
    overloads(night)
    is_paused(night)
    loses_its_engine(night)
    is_switched(night)
    idles(night)
    is_scraped(night, tmp_path)
    night.app = opened("")
    idles(night)
    assert night.server.stop() == 0
    night.until("the end", lambda seen: [] if "cannot be reached" in seen.sentence else ["it seems to be there"])


# ---------------------------------------------------------------------- what stands beside the server


def changes(app: AppTest) -> list[str]:
    """The rows of the last changes, and the words of the marks in the charts."""
    rows = [" ".join(map(str, row)) for one in app.table for row in one.value.to_numpy().tolist()]
    figures = [json.loads(one.proto.json).get("figure", {}) for one in app.get("bidi_component")]
    return rows + [note["text"] for one in figures for note in one.get("layout", {}).get("annotations", ())]


def has_a_neighbour(night: Night, patch: pytest.MonkeyPatch) -> None:
    """Another server, with another preset: each is told with its own, and together they have the counts of both."""
    raw, alone = night.raw, night.app
    assert isinstance(raw, RawMetrics)
    with LiveStandIn("throughput", clients=2) as other, RawMetrics(other.url).watching() as beside:
        other.engine.base_s = 0.05
        patch.setenv("HEADWAY_URL", f"{night.server.url},{other.url}")
        wait_until(lambda: beside.span_s() > WINDOW_S + INTERVAL_S, "the script has looked at both for a window")
        night.app, night.raw = opened(""), BothMetrics(raw, beside)
        with loaded(night, FLOOD):
            night.until("two servers, one of them full", night.disagreements)
            info = [
                labels for name, labels, value in night.raw.looks[-1].samples if name == "headway_preset_info" and value
            ]
            told = [(labels["preset"], labels["revision"]) for labels in info]
            assert len(told) == 2, told
            night.until("two servers", says(night, *(f"{name} · revision {revision}" for name, revision in told)))
        assert re.search(r"up \d[^·\n]* to \d", words(night.app)), words(night.app)
        night.until("no switch", lambda _: [one for one in changes(night.app) if "throughput" in one or "◆" in one])
    patch.setenv("HEADWAY_URL", night.server.url)
    night.app, night.raw = alone, raw
    night.server.settle()


@contextmanager
def spinning(processes: int) -> Iterator[None]:
    """So many processes that only compute."""
    found = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for one in found:
            one.kill()
            one.wait()


def taken_by_others(looks: Sequence[Look]) -> bool:
    """Whether the machine is full, mostly with what is not this server, and the server misses objectives."""

    def busy(look: Look, *processes: str) -> float:
        return sum(look.total("headway_processor_busy_ratio", process=one) for one in processes)

    first, last = looks[-int(WINDOW_S)], looks[-1]
    judged, met = (
        last.total(f"headway_objective_{what}_total", objective="both")
        - first.total(f"headway_objective_{what}_total", objective="both")
        for what in ("judged", "met")
    )
    full = all(busy(look, "machine") > 0.95 for look in looks[-10:])
    return full and busy(last, "machine") > 2 * busy(last, "api_server", "engine") and met < 0.9 * judged


def is_crowded_out(night: Night) -> None:
    """Other processes take the processors: they are the cause, and no preset is advised, for none would help."""
    night.server.use("balanced")
    with loaded(night, LIGHT):
        with spinning(4 * (os.cpu_count() or 1)):
            wait_until(lambda: taken_by_others(night.raw.looks[:]), "the machine is full", 180)
            seen = night.until(
                "a busy host", lambda seen: [] if "takes its processors" in seen.sentence else ["no host"]
            )
            assert seen.severity in ("degraded", "overloaded"), seen
            advice = next(part for part in words(night.app).split("\n") if "Remedy" in part)
            assert "what else runs on the machine" in advice
            assert not [text for text in ("seats", "preset") if text in advice], advice
        night.until("the host is quiet", lambda seen: ["still"] if "takes its processors" in seen.sentence else [])


@long_form("policies/diagnosis has the rules of a busy host, test_several_servers_page a page of two")
def test_what_stands_beside_the_server_is_told_from_it(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another server, and other work on its machine."""
    idles(night)
    has_a_neighbour(night, monkeypatch)
    is_crowded_out(night)
