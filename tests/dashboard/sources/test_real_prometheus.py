"""A panel's series through a real Prometheus that scrapes the stub."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

import pytest
from counter_histories import UNKNOWN_REASON, Scrape, broken_history, ledger_history
from error_share_sum import sums_to_the_share
from prometheus_process import program, running_prometheus
from stub_server import StubServer
from tiers import LONG, long_form

from headway_dashboard.analysis.catalogue import ALL_PANELS, panels
from headway_dashboard.analysis.catalogue.causes import COLOURS, NOT_FAILED, words
from headway_dashboard.analysis.catalogue.panels import for_classes
from headway_dashboard.analysis.queries.expressions import Expression, Imbalance, Share, Worst
from headway_dashboard.analysis.queries.model import Series, newest, onset_marks
from headway_dashboard.analysis.server import newest_values
from headway_dashboard.analysis.server.fleet.scale_events import EXPRESSIONS, scale_events
from headway_dashboard.analysis.server.instances import away_words, by_instance, instance_name
from headway_dashboard.sources import ChosenSource, PrometheusSource, read

pytestmark = pytest.mark.slow

CONFIG = Path(__file__).parents[3] / "deploy" / "prometheus"


@pytest.fixture
def prometheus(stub: StubServer, tmp_path: Path, until: Callable[..., None]) -> Iterator[str]:
    """A Prometheus with the configuration of deploy/, but for a scrape each second, of the moving stub, where requests
    end in every way."""
    stub.moving = True
    stub.world.load = 3.0
    stub.world.ends_per_s = dict.fromkeys((*COLOURS, *NOT_FAILED, UNKNOWN_REASON), 0.5)
    shutil.copy(CONFIG / "rules.yml", tmp_path)
    shipped = (CONFIG / "prometheus.yml").read_text()
    hastened = shipped.replace("scrape_interval: 5s", "scrape_interval: 1s").replace("timeout: 4s", "timeout: 1s")
    assert hastened.count(": 1s") == 2
    (tmp_path / "prometheus.yml").write_text(hastened)
    (tmp_path / "targets.yml").write_text(f'- targets: ["{stub.url.removeprefix("http://")}"]\n')
    with running_prometheus(tmp_path, tmp_path / "prometheus.yml") as url:
        yield url


def test_panels_read_their_series_from_prometheus(
    prometheus: str, stub: StubServer, until: Callable[..., None]
) -> None:
    """Gauges, rates, quantiles and the engine's own metric agree with the world; a preset change is seen.

    No panel is refused: a rate over two metrics with the same labels, for one, is an error once both have samples.
    """
    source = PrometheusSource(prometheus, interval_s=1.0)
    wanted = (panels.LIMIT, panels.PRESET, panels.KV_USE, panels.TOKENS, panels.BATCH, *panels.TTFT_PANEL.expressions)
    asked = (*wanted, panels.QUEUED_BY_CLASS, panels.GPU_TOTAL)
    until(lambda: newest(read(source, asked, 300.0)[panels.TTFT_P95_BY_CLASS].line("normal")) is not None)
    reading = read(source, asked, 300.0)

    def settled() -> bool:
        nonlocal reading
        reading = read(source, asked, 300.0)
        # at first Prometheus may extrapolate the sum from more scrapes than the count; a scrape may miss its second
        return 0 < (newest(reading[panels.BATCH].line()) or 0) <= 32 and reading.health.trouble is None

    until(settled)
    assert reading.source == "Prometheus"
    assert newest(reading[panels.LIMIT].line()) == 32
    assert newest(reading[panels.TOKENS].line()) is not None
    assert set(reading[panels.QUEUED_BY_CLASS].lines) == {("realtime",), ("normal",), ("batch",)}
    assert reading[panels.GPU_TOTAL].empty
    assert reading[panels.LIMIT].line()[0] is None
    assert isinstance(panels.ERROR_SHARE, Share)
    share = (panels.ERROR_SHARE, panels.ERROR_SHARE.whole, *panels.ERROR_PANEL.expressions)
    every = {words(how) for how in (*COLOURS, UNKNOWN_REASON)}
    until(lambda: set(newest_values.causes_now(read(source, share, 300.0))) == every)
    found = read(source, share, 300.0)
    assert sums_to_the_share(lambda one: found[one], panels.ERROR_SHARE, panels.ERROR_PANEL.expressions)

    shown = {one for page in ALL_PANELS.values() for panel in page for one in panel.expressions}

    def all_shown() -> bool:
        reading = read(source, tuple(shown), 300.0)
        # on a busy machine one scrape may miss its second: then Prometheus does not reach the server
        return reading.series.keys() >= shown and reading.health.trouble is None

    until(all_shown)

    stub.world.switch("latency", {}, "")
    until(lambda: newest(read(source, asked, 300.0)[panels.LIMIT].line()) == 8)
    until(lambda: newest(read(source, asked, 300.0)[panels.PRESET].line("latency", "2")) == 1)

    stub.stop()
    until(lambda: read(source, asked, 300.0).health.trouble == "refused")
    assert "does not reach" in read(source, asked, 300.0).health.detail
    source.close()


SCRAPES, STEP_S = 60, 2
HISTORIES = 40 if LONG else 10


def exposition(histories: Sequence[Sequence[Scrape]], start_s: int) -> str:
    """The histories in the OpenMetrics format, all series of a metric together and each in the order of time."""
    samples = sorted(
        (name, labels, start_s + at * STEP_S, value)
        for history in histories
        for at, scrape in enumerate(history)
        for (name, labels), value in scrape.items()
    )
    lines, before = [], ""
    for name, labels, time_s, value in samples:
        if name != before:
            lines.append(f"# TYPE {name.removesuffix('_total')} counter")
        before = name
        inside = ",".join(f'{key}="{text}"' for key, text in labels)
        lines.append(f"{name}{{{inside}}} {value} {time_s}")
    return "\n".join((*lines, "# EOF\n"))


def backfill(folder: Path, text: str) -> None:
    """Make the data of a Prometheus that scrapes nothing from samples in the OpenMetrics format."""
    (folder / "histories").write_text(text)
    (folder / "prometheus.yml").write_text("scrape_configs: []\n")
    words = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", "histories", "data"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)


def all_answers(
    url: str, questions: Sequence[Expression], end_s: float, until: Callable[..., None], range_s: float = 100.0
) -> Mapping[Expression, Series]:
    """The answers at a fixed time. Each attempt has a source of its own: a breaker with this clock would stay open."""
    found: dict[Expression, Series] = {}

    def ask() -> bool:
        with contextlib.closing(PrometheusSource(url, interval_s=STEP_S, clock=lambda: end_s)) as source:
            reading = read(source, questions, range_s)
            while source.reachable and reading.series.keys() != {*questions}:
                reading = read(source, questions, range_s)
        found.update(reading.series)
        return found.keys() == {*questions}

    until(ask)
    return found


def test_the_causes_sum_to_the_share_in_prometheus(tmp_path: Path, until: Callable[..., None]) -> None:
    """Random histories, a class each, half of them with restarts, gaps and unknown names: at every instant."""
    names = [f"h{number}" for number in range(HISTORIES)]
    makers = (ledger_history, broken_history)
    histories = [makers[at % 2](Random(at), SCRAPES, name) for at, name in enumerate(names)]
    start_s = int(time.time()) // 7200 * 7200 - 7200
    backfill(tmp_path, exposition(histories, start_s))
    end_s = start_s + (SCRAPES - 1) * STEP_S
    with running_prometheus(tmp_path, tmp_path / "prometheus.yml") as url:
        compared = []
        for name in (None, *names):
            chosen = () if name is None else (name,)
            share = for_classes(panels.ERROR_SHARE, chosen)
            causes = [for_classes(one, chosen) for one in panels.ERROR_PANEL.expressions]
            assert isinstance(share, Share)
            series = all_answers(url, (share, share.whole, *causes), end_s, until)
            compared.append(sums_to_the_share(series.__getitem__, share, causes))
    assert min(compared) > 10


def test_a_restart_shorter_than_a_step_is_marked_by_prometheus(tmp_path: Path, until: Callable[..., None]) -> None:
    """An hour in steps of 15 s, with a state that was scraped once: the panel's own question does not see it."""
    count, at_s = 1800, 1207
    start_s = int(time.time()) // 7200 * 7200 - 7200
    states = {state: [int((at * STEP_S in (at_s - 1, at_s)) == (state != "up")) for at in range(count)]
              for state in ("up", "restarting")}  # fmt: skip
    lines = ["# TYPE headway_engine_state gauge"]
    for state, values in states.items():
        name = f'headway_engine_state{{state="{state}"}}'
        lines += [f"{name} {value} {start_s + at * STEP_S}" for at, value in enumerate(values)]
    backfill(tmp_path, "\n".join((*lines, "# EOF\n")))
    end_s = start_s + (count - 1) * STEP_S
    with running_prometheus(tmp_path, tmp_path / "prometheus.yml") as url:
        asked = (panels.ENGINE_STATES_SEEN, panels.ENGINE_STATE)
        found = all_answers(url, asked, end_s, until, range_s=3600.0)
    said = {"restarting": "engine restarting"}
    (mark,) = onset_marks(found[panels.ENGINE_STATES_SEEN], said)
    assert 0 <= mark.time_s - (start_s + at_s - 1) <= 15
    assert onset_marks(found[panels.ENGINE_STATE], said) == []


def events(source: PrometheusSource) -> list[tuple[str, str]]:
    """What happened to which server."""
    return [(one.label, one.of) for one in scale_events(read(source, EXPRESSIONS, 300.0))]


@long_form("test_several_servers has it with scrapes, test_prometheus_ranges with a stand-in for Prometheus")
def test_two_servers_in_prometheus_are_merged_and_told_apart(
    tmp_path: Path, until: Callable[..., None], nobody: str
) -> None:
    """Sums over both, the largest where a sum says nothing, each alone, and one that is down; over 30 days as well.

    And what happened to them, although Prometheus scrapes something else too, which is no server.
    """
    with StubServer(moving=True) as first, StubServer(moving=True) as second:
        names = [instance_name(one.url) for one in (first, second)]
        (tmp_path / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
            f"scrape_configs: [{{job_name: headway, static_configs: [{{targets: {names}}}]}},"
            f" {{job_name: other, static_configs: [{{targets: ['{instance_name(nobody)}']}}]}}]\n"
        )
        second.world.switch("latency", {}, "")
        with (
            running_prometheus(tmp_path, tmp_path / "prometheus.yml") as url,
            contextlib.closing(PrometheusSource(url, instances=names, interval_s=1.0)) as source,
        ):
            asked = (panels.LIMIT, panels.LIMIT_OF_ONE, panels.READY, panels.TTFT[0.95], by_instance(panels.LIMIT))
            merged = (panels.LIMIT, panels.LIMIT_OF_ONE, panels.READY)

            def both_are_seen() -> bool:
                """One is asked after the other: the first scrape of a server may come between any two of them."""
                reading = read(source, asked, 300.0)
                apart = reading[by_instance(panels.LIMIT)]
                return (
                    list(reading.instances) == names
                    and [newest(reading[one].line()) for one in merged] == [40, 32, 1]
                    and [newest(apart.line(name)) for name in names] == [32, 8]
                )

            until(both_are_seen)
            alone = ChosenSource(source, names[1])
            until(lambda: newest(read(alone, asked, 300.0)[panels.LIMIT].line()) == 8)
            until(lambda: read(alone, asked, 300.0)[panels.TTFT[0.95]].latest() is not None)
            worst, uneven = Worst(panels.TTFT[0.95]), Imbalance(panels.SEATS, 1.0)
            until(lambda: read(source, (worst, uneven), 300.0)[worst].latest() is not None)
            until(lambda: 1 <= (read(source, (worst, uneven), 300.0)[uneven].latest() or 0) <= 2)
            first.world.started_s += 60
            until(lambda: ("restarted", names[0]) in events(source))
            until(lambda: read(source, asked, 30 * 86_400.0)[panels.LIMIT].latest() == 40)

            second.stop()
            until(lambda: read(source, asked, 300.0).instances[names[1]].trouble == "refused")
            until(lambda: read(source, asked, 300.0)[panels.LIMIT].latest() == 32)
            until(lambda: read(source, asked, 300.0).health.trouble is None)
            until(lambda: read(source, asked, 300.0)[by_instance(panels.LIMIT)].latest(names[1]) is None)
            # On a busy machine a scrape of a second may be missed, which is an event as well, and of one of these two.
            until(lambda: {("restarted", names[0]), ("gone", names[1])} <= {*events(source)})
            assert {name for _, name in events(source)} == {*names}
            said = "1 of 2 servers does not answer."
            until(lambda: away_words(read(source, asked, 300.0), time.time()) == said)
