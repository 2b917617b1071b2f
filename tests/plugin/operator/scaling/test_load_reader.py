"""The load of a gate in seats: what arrives, what one instance serves, what waits, and missed objectives."""

from __future__ import annotations

import asyncio

import pytest
from small_presets import small_preset, terms
from steady_traffic import steady_traffic
from virtual_time import on_virtual_time

from headway.admission import Gate
from headway.operator.scaling.load_reader import LoadReader
from headway_policies.scaling import Scaling, ScalingSignals, own_need


def read(reader: LoadReader) -> ScalingSignals:
    """What is seen, where something is."""
    seen = reader.read()
    assert seen is not None
    return seen


@on_virtual_time
async def test_the_load_is_the_seats_that_requests_fill() -> None:
    """Three a second for two seconds each fill six, on a server of twelve."""
    gate = Gate(small_preset(12))
    await steady_traffic(gate, 3.0, 2.0, 200.0)
    seen = read(LoadReader(gate, lambda: 1))
    assert (seen.ready, seen.capacity) == (1, 12.0)
    assert seen.offered == pytest.approx(6.0, rel=0.1)
    assert own_need(Scaling(), seen).instances == pytest.approx(6.0 / (0.8 * 12.0), rel=0.1)
    gate.close()


@on_virtual_time
async def test_refused_requests_are_load_too() -> None:
    """An overload of three times the seats asks for three times the servers, although no more seats can be taken."""
    gate = Gate(small_preset(4, classes={"normal": terms(2, places=2, queue_s=1.0)}))
    await steady_traffic(gate, 6.0, 2.0, 200.0)
    seen = read(LoadReader(gate, lambda: 1))
    assert seen.offered == pytest.approx(12.0, rel=0.1)
    gate.close()


@on_virtual_time
async def test_a_batch_that_fills_idle_seats_asks_for_no_instance() -> None:
    """Its lines take all that is left, on however many instances; they count as one seat, so one instance stays."""
    classes = {"normal": terms(2, queue_s=30.0), "batch": terms(1, queue_s=None)}
    gate, running = Gate(small_preset(12, classes=classes)), True
    reader = LoadReader(gate, lambda: 1, fills=lambda: running)
    await steady_traffic(gate, 5.0, 2.0, 200.0, "batch")
    running = False
    assert read(reader).offered == pytest.approx(10.0, rel=0.1)
    running = True
    assert read(reader).offered == pytest.approx(1.0, rel=0.1)
    assert 0 < own_need(Scaling(), read(reader)).instances < 0.2
    await steady_traffic(gate, 3.0, 2.0, 200.0, "normal")
    assert read(reader).offered == pytest.approx(6.0, rel=0.1)
    waiting = [gate.enter("batch") for _ in range(20)]
    assert "batch" not in read(reader).queues
    assert len(waiting) == 20
    gate.close()


@on_virtual_time
async def test_one_instance_of_a_fleet_has_its_part_of_the_seats() -> None:
    """While none serves, that of the last one; and nothing is known before there was one."""
    gate, instances = Gate(small_preset(12)), 0
    reader = LoadReader(gate, lambda: instances)
    assert reader.read() is None
    instances = 3
    seen = read(reader)
    assert (seen.ready, seen.capacity) == (3, 4.0)
    instances = 0
    seen = read(reader)
    assert (seen.ready, seen.capacity) == (0, 4.0)
    gate.close()


@on_virtual_time
async def test_a_queue_counts_in_seat_seconds_against_its_objective() -> None:
    """By class: an objective, or half of the queue time-out; a class without either waits as long as it takes."""
    classes = {
        "quick": terms(3, ttft_slo_s=2.0, queue_s=None),
        "normal": terms(2, queue_s=30.0),
        "patient": terms(1, queue_s=None, total_s=None),
    }
    gate = Gate(small_preset(4, classes=classes), ceiling=4)
    for name in classes:
        await steady_traffic(gate, 1.0, 2.0, 30.0, name)
    held = [gate.enter("normal") for _ in range(4)]
    for permit in held:
        permit.first_token()
    waiting = [gate.enter(name) for name in ("quick", "quick", "normal", "patient")]
    await asyncio.sleep(1.5)
    seen = read(LoadReader(gate, lambda: 1))
    found = {name: (queue.depth, queue.age_s, queue.objective_s) for name, queue in seen.queues.items()}
    assert found == {
        "quick": (pytest.approx(4.0, rel=0.05), pytest.approx(1.5), 2.0),
        "normal": (pytest.approx(2.0, rel=0.05), pytest.approx(1.5), 15.0),
    }
    assert len(held) + len(waiting) == 8
    gate.close()


@on_virtual_time
async def test_missed_objectives_count_where_seats_are_short() -> None:
    """Of the last minute, and from twenty requests on; on a server with free seats another instance would not help."""
    gate, counts = Gate(small_preset(4)), [100, 100]
    reader = LoadReader(gate, lambda: 1, lambda: (counts[0], counts[1]))

    def attained() -> float | None:
        seen = read(reader)
        return seen.attained_ratio

    held = [gate.enter() for _ in range(2)]
    assert attained() is None
    counts[0] += 19
    assert attained() is None
    counts[0] += 21
    counts[1] += 30
    assert attained() == 0.75
    for _ in range(13):
        await asyncio.sleep(5)
        found = attained()
    assert found is None
    counts[0] += 40
    assert attained() == 0.0
    held.pop()
    gate.close()


@on_virtual_time
async def test_misses_on_an_idle_server_do_not_count() -> None:
    """Its first tokens are late for another reason."""
    gate, counts = Gate(small_preset(4)), [0, 0]
    reader = LoadReader(gate, lambda: 1, lambda: (counts[0], counts[1]))
    reader.read()
    counts[0] += 40
    seen = read(reader)
    assert seen.attained_ratio is None
    gate.close()
