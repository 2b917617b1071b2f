"""The number of instances of a fleet: it follows the load, is held, logged, bounded, and goes ahead of a daily peak."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from small_presets import small_preset
from steady_traffic import steady_traffic
from virtual_time import on_virtual_time

from headway.admission import Gate
from headway.operator.scaling import Fleet, FleetScale, ScaleSignal
from headway.operator.scaling.load_reader import LoadReader
from headway_policies.scaling import Scaling, ScalingSignals

LOGGER = "headway.operator.scaling.fleet"
DAY_S = 86_400.0
SETTINGS = Scaling(minimum=1, maximum=6, start_s=600.0, ahead_s=300.0)


class OneDay:
    """Days of a fleet on a clock of its own: 30 seats are filled from noon until one o'clock, 3 else."""

    def __init__(self, settings: Scaling = SETTINGS, file: Path | None = None) -> None:
        self.now_s = 0.0
        self.file = file
        self._fleet = Fleet(settings, lambda: 1, lambda: self.file)
        self.scale = self.begun()

    def begun(self) -> FleetScale:
        """As a process does that starts now."""
        return FleetScale(self._fleet, lambda: self.now_s, lambda: 20_000 * DAY_S + self.now_s)

    def until(self, at_s: float) -> float:
        """The number at that time, after one look a minute."""
        number = 0.0
        while self.now_s < at_s:
            self.now_s += 60.0
            hour = (self.now_s - 30.0) % DAY_S / 3600.0  # a load is the mean of the time before
            number = self.scale.update(ScalingSignals(1, 30.0 if 12.0 <= hour < 13.0 else 3.0, 10.0))
        return number


def test_a_daily_peak_finds_its_instances_there() -> None:
    """On the third day they are asked for as long before noon as one takes to start; on the first two after it."""
    day = OneDay()
    for number in (0, 1):
        assert day.until((number + 0.5) * DAY_S - 300.0) == 1
        assert day.until((number + 0.5) * DAY_S + 120.0) == 4
    assert day.until(2.5 * DAY_S - 1200.0) == 1
    assert day.until(2.5 * DAY_S - 600.0) == 4
    assert day.until(2.5 * DAY_S + 3.0 * 3600.0) == 1


def test_a_process_that_learns_its_model_late_knows_the_peak(tmp_path: Path) -> None:
    """The file is that of the model, which the instances of a router say once they have loaded it."""
    file = tmp_path / "arrivals.json"
    first = OneDay(file=file)
    first.until(2.4 * DAY_S)
    first.scale.end()
    first.file, scale = None, first.begun()
    first.scale = scale
    first.until(2.42 * DAY_S)
    first.file = file
    assert first.until(2.5 * DAY_S - 600.0) == 4


def test_the_next_process_knows_the_peak(tmp_path: Path) -> None:
    """The days are kept in the file; the next process begins with them."""
    file = tmp_path / "arrivals.json"
    first = OneDay(file=file)
    first.until(2.25 * DAY_S)
    first.scale.end()
    for known, number in ((file, 4), (tmp_path / "none.json", 1)):
        following = OneDay(file=known)
        following.now_s = 2.25 * DAY_S
        following.scale = following.begun()
        assert following.until(2.5 * DAY_S - 600.0) == number


def test_a_bound_on_the_hours_of_a_day_is_kept() -> None:
    """With 26 hours for a day, two more than one instance needs, the peak gets what is left of them."""
    day = OneDay(Scaling(minimum=1, maximum=6, hours_a_day=26.0))
    numbers = [day.until(float(at_s)) for at_s in range(60, int(DAY_S), 60)]
    assert max(numbers) == 4
    assert sum(numbers) / 60.0 <= 26.0 + 0.1
    assert numbers[-1] == 1


def test_the_hours_of_a_day_are_counted_over_a_restart(tmp_path: Path) -> None:
    """Spent hours stay spent: after the peak had them all, the next process asks for one instance until midnight."""
    settings, file = Scaling(minimum=1, maximum=6, hours_a_day=26.0), tmp_path / "arrivals.json"
    first = OneDay(settings, file)
    assert first.until(12.9 * 3600.0) == 1
    first.scale.end()
    for known, number in ((file, 1), (tmp_path / "none.json", 4)):
        following = OneDay(settings, known)
        following.now_s = first.now_s
        following.scale = following.begun()
        assert following.until(12.95 * 3600.0) == number


@on_virtual_time
async def test_it_follows_the_traffic_of_a_gate(caplog: pytest.LogCaptureFixture) -> None:
    """From what runs when it begins; each other number is one line."""
    caplog.set_level(logging.INFO, LOGGER)
    gate, ready = Gate(small_preset(8)), 2
    fleet = Fleet(Scaling(minimum=1, maximum=6, down_after_s=60.0), lambda: ready)
    signal = ScaleSignal(LoadReader(gate, fleet.ready), FleetScale(fleet, gate.now_s), 1)
    assert signal.instances == 1
    task = asyncio.create_task(signal.run())
    await asyncio.sleep(0)
    assert signal.instances == 2
    await steady_traffic(gate, 4.0, 1.8, 120.0)
    assert signal.instances == 3
    await asyncio.sleep(600)
    assert signal.instances == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    words = [record.getMessage() for record in caplog.records]
    assert words[0] == "desired instances: 2 (held); 2 serve"
    assert words[-1].startswith("desired instances: 1 (")
    assert [word.split()[2] for word in words] == ["2", "3", "2", "1"]
    gate.close()
