"""From a server's metrics to the number of replicas, as far as it needs no Ray."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from headway_fleet.fleet_scaling import FleetScaling
from headway_fleet.reading import ClassReading, Reading, Readings, read
from headway_fleet.signals import USUAL_OBJECTIVE_S, figures, signals
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric

from headway.operator.metrics import TABLE
from headway.operator.metrics.table import counter, gauge, histogram, one_gauge
from headway_policies.scaling import ClassQueue

CLASSES = {"realtime": ClassReading(2, 0.5, 1.0), "batch": ClassReading(3, 40.0, None)}
READING = Reading(
    ready=True, seats=8, running=6, demand=1.5, kv_use=0.25, seat_s=12.0, seated=10.0, judged=9.0, met=7.0,
    tokens=120.0, classes=CLASSES,
)  # fmt: skip


class Exposed:
    """The families of one server, with samples that a reading must leave out."""

    def collect(self) -> list[Metric]:
        limit = gauge("headway_limit", "kind")
        for kind, seats in (("live", 8), ("proposed", 20), ("ceiling", 64)):
            limit.add_metric([kind], seats)
        depth, oldest = gauge("headway_queue_depth", "class"), gauge("headway_queue_oldest_wait_seconds", "class")
        objective = gauge("headway_objective_seconds", "class", "objective")
        for name, one in CLASSES.items():
            depth.add_metric([name], one.depth)
            oldest.add_metric([name], one.age_s)
            objective.add_metric([name, "inter_token"], 0.1)
            if one.objective_s is not None:
                objective.add_metric([name, "first_token"], one.objective_s)
        judged = counter("headway_objective_judged_total", "class", "objective")
        met = counter("headway_objective_met_total", "class", "objective")
        for name, of_judged, of_met in (("realtime", 5, 4), ("batch", 4, 3)):
            for kind in ("first_token", "both"):
                judged.add_metric([name, kind], of_judged)
                met.add_metric([name, kind], of_met)
        times = [histogram(f"headway_{stage}_seconds", "class") for stage in ("prefill", "decode")]
        for family, total_s in zip(times, (2.0, 10.0), strict=True):
            family.add_metric(["realtime"], buckets=[("1.0", 4.0), ("+Inf", 10.0)], sum_value=total_s)
        plain = {
            "headway_ready": 1.0, "headway_seats_taken": 6.0, "headway_scale_ratio": 1.5,
            "headway_engine_kv_cache_usage_ratio": 0.25,
        }  # fmt: skip
        gauges = [one_gauge(name, value) for name, value in plain.items()]
        return [limit, depth, oldest, objective, judged, met, *times, *gauges]


def test_a_reading_is_what_a_scrape_says() -> None:
    """Of the families as Headway exports them, beside others; what is missing is 0."""
    registry = CollectorRegistry()
    registry.register(Exposed())  # type: ignore[arg-type]  # it has the one method that is called
    engine = {"num_requests_running": 99, "generation_tokens_total": 20, "prompt_tokens_total": 100}
    text = generate_latest(registry).decode() + "".join(
        f'vllm:{name}{{engine="0"}} {value}\n' for name, value in engine.items()
    )
    assert read(text) == READING
    assert READING.waiting == 5
    assert read("") == Reading()


def test_every_name_that_is_read_is_a_metric() -> None:
    """The reading would not notice a metric that has been renamed."""
    constants = read.__code__.co_consts
    named = {one.removesuffix("_sum").removesuffix("_count") for one in constants if str(one).startswith("headway_")}
    assert len(named) >= 8
    assert named <= set(TABLE)


def exposed(judged: int, met: int) -> str:
    """The metrics of a server that has judged so many requests."""
    return "".join(
        f'headway_objective_{name}_total{{class="normal",objective="both"}} {count}\n'
        for name, count in (("judged", judged), ("met", met))
    )


def history(*readings: Reading) -> dict[str, dict[str, list[float]]]:
    """Each reading is of another replica that has said the same since an idle beginning."""
    return {
        name: {str(place): [0.0, figures(one)[name]] for place, one in enumerate(readings)}
        for name in figures(readings[0])
    }


def test_the_signals_of_two_replicas() -> None:
    """Demands add up; a class has the sum of the depths and the oldest age; the rest is a mean or a share."""
    found = signals(history(READING, READING), ready=2)
    assert found.capacity == pytest.approx(8 / 1.2)
    assert found.offered == pytest.approx(3.0 * found.capacity)
    assert found.queues == {"realtime": ClassQueue(4, 0.5, 1.0), "batch": ClassQueue(6, 40.0, USUAL_OBJECTIVE_S)}
    assert found.attained_ratio == pytest.approx(7 / 9)
    assert found.kv_use == pytest.approx(0.25)


def test_replicas_that_have_said_nothing_and_servers_that_began_anew() -> None:
    """Nothing known asks for nothing; a count that fell begins at 0 again."""
    assert signals({}, ready=1).offered == 0.0
    assert signals({"demand": {"a": []}}, ready=1).kv_use is None
    again = {"judged": {"a": [100.0, 4.0]}, "met": {"a": [90.0, 2.0]}}
    assert signals(again, ready=1).attained_ratio == 0.5
    since = {"judged": {"a": [90.0, 100.0, 0.0, 110.0]}, "met": {"a": [90.0, 100.0, 0.0, 50.0]}}
    assert signals(since, ready=1).attained_ratio == pytest.approx(60 / 120)


async def test_a_scrape_that_fails_is_neither_growth_nor_a_new_beginning() -> None:
    """What was served before it is not counted again with the next good one."""
    scrapes = iter([exposed(judged=1000, met=0), TimeoutError(), exposed(judged=1010, met=10)])

    async def scrape() -> str:
        found = next(scrapes)
        if isinstance(found, Exception):
            raise found
        return found

    readings = Readings(scrape, fresh_s=1.0)
    sent = [figures(await readings.newest(now_s)) for now_s in (0.0, 1.0, 2.0)]
    assert signals({name: {"a": [one[name] for one in sent]} for name in sent[0]}, ready=1).attained_ratio == 1.0


@dataclass
class Value:
    """One sample of Ray Serve's time series."""

    value: float


def context(readings: list[Reading], now_s: float) -> Any:
    """What Ray Serve's controller passes to a policy."""
    sent = history(*readings) if readings else {}
    raw = {name: {place: [Value(one) for one in series] for place, series in by.items()} for name, by in sent.items()}
    return SimpleNamespace(raw_metrics=raw, current_num_replicas=max(1, len(readings)), current_time=now_s)


def test_the_policy_follows_load_queues_and_memory_up_at_once_and_down_slowly() -> None:
    """Settings of the scaling policy go through, and the state is kept between two calls."""
    policy = FleetScaling(minimum=1, maximum=6, target_ratio=0.75, down_after_s=10.0, down_step_s=1.0)
    idle, full = Reading(ready=True, seats=8), Reading(ready=True, seats=8, kv_use=1.0)
    assert policy(context([], 0.0)) == (1, {})
    assert policy(context([READING, READING], 1.0))[0] == 4
    assert policy(context([idle], 5.0))[0] == 4
    assert policy(context([idle], 20.0))[0] == 3
    assert FleetScaling(maximum=6)(context([full, full], 0.0))[0] == 3
    late = Reading(ready=True, seats=8, seat_s=8.0, seated=8.0, classes={"batch": ClassReading(16, 30.0, None)})
    assert FleetScaling(maximum=6)(context([late], 0.0))[0] == 1
    urgent = Reading(ready=True, seats=8, seat_s=8.0, seated=8.0, classes={"realtime": ClassReading(16, 0.6, 1.0)})
    assert FleetScaling(maximum=6)(context([urgent], 0.0))[0] == 2
