"""The file of a learnt limit: written while it learns and at the end, read at a start, never an error."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest
from small_presets import small_preset
from virtual_time import on_virtual_time

from headway.admission import Gate
from headway.supervision.learnt_limit import LearntLimit, learnt_limit_file
from headway_policies import Load
from headway_policies.limits import LimitSettings

LOGGER = "headway.supervision.learnt_limit"
ADAPTIVE = {"policy": "aimd", "max_seats": 64}


def gate_with(seats: int = 4, **limit: object) -> Gate:
    return Gate(small_preset(seats, limit=LimitSettings.model_validate({**ADAPTIVE, **limit})))


async def full_load(gate: Gate, for_s: float = 5.0) -> None:
    """Quick steps of an engine whose seats are all taken while others wait: the limit grows."""
    for _ in range(8 * gate.desk.limit):
        gate.enter()
    until_s = gate.now_s() + for_s
    while gate.now_s() < until_s:
        gate.observe(Load(gate.desk.seats_taken, 0, 0.1, inter_token_s=0.01))
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HEADWAY_CACHE_DIR": "/kept"}, "/kept/limit-" + "a" * 24 + ".json"),
        ({"VLLM_CACHE_ROOT": "/caches"}, "/caches/headway/limit-" + "a" * 24 + ".json"),
        ({"XDG_CACHE_HOME": "/mine"}, "/mine/vllm/headway/limit-" + "a" * 24 + ".json"),
        ({"HEADWAY_CACHE_DIR": "", "VLLM_CACHE_ROOT": "/caches"}, None),
    ],
    ids=["its own folder", "beside the compile cache", "the user's caches", "nowhere"],
)
def test_where_the_file_is(environment: dict[str, str], expected: str | None) -> None:
    """One for each engine; none for an engine of which nothing is known."""
    path = learnt_limit_file("a" * 64, environment)
    assert path == (None if expected is None else Path(expected))
    assert learnt_limit_file("", environment) is None


def test_a_user_without_a_home_keeps_no_server_from_starting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nor does a folder that may not be looked into: the limit starts from the preset's seats."""
    assert learnt_limit_file("a" * 64, {"HEADWAY_CACHE_DIR": "~no-such-user/kept"}) is not None
    gate = gate_with()
    LearntLimit(gate, tmp_path / ("a" * 300) / "limit.json").recall()
    assert gate.desk.limit == 4


@on_virtual_time
async def test_the_next_server_starts_where_the_last_one_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Kept when its task ends; recalled with one line in the log."""
    caplog.set_level(logging.INFO, LOGGER)
    path, last, following = tmp_path / "deep" / "limit.json", gate_with(), gate_with()
    first = LearntLimit(last, path)
    first.recall()
    task = asyncio.create_task(first.run())
    await full_load(last)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert last.desk.limit > 4
    LearntLimit(following, path).recall()
    assert (following.desk.limit, following.desk.read(following.now_s()).limit_reason) == (last.desk.limit, "recalled")
    assert [record.getMessage() for record in caplog.records] == [
        f"the limit starts at {last.desk.limit} seats, as this engine's last server had learnt it"
    ]
    assert [file.name for file in path.parent.iterdir()] == ["limit.json"]


@on_virtual_time
async def test_it_is_kept_every_minute_while_it_changes(tmp_path: Path) -> None:
    """A server that is killed loses a minute at the most; one that learns nothing new writes nothing."""
    path, gate = tmp_path / "limit.json", gate_with()
    task = asyncio.create_task(LearntLimit(gate, path).run())
    await full_load(gate)
    assert not path.exists()
    await asyncio.sleep(60)
    assert json.loads(path.read_text())["seats"] == gate.desk.read(gate.now_s()).learnt_limit.seats  # type: ignore[union-attr]  # it has
    path.unlink()
    await asyncio.sleep(120)
    assert not path.exists()
    task.cancel()


@on_virtual_time
async def test_a_limit_of_other_settings_starts_afresh(tmp_path: Path) -> None:
    """Seats that kept one time between tokens are wrong for another; a fixed limit has its own."""
    path, gate = tmp_path / "limit.json", gate_with()
    await full_load(gate)
    LearntLimit(gate, path).keep()
    for other in (gate_with(inter_token_slo_ms=20.0), gate_with(policy="sla"), Gate(small_preset(4))):
        LearntLimit(other, path).recall()
        assert other.desk.limit == 4


@on_virtual_time
async def test_the_costs_of_a_step_are_kept_under_a_fixed_limit_too(tmp_path: Path) -> None:
    """So that the next server knows the knee of its engine from the start, under every preset."""
    path, last, following = tmp_path / "limit.json", Gate(small_preset(4)), Gate(small_preset(8))
    for running in [2, 4, 6, 8] * 200:
        await asyncio.sleep(0.02 + 0.001 * running)
        last.observe(Load(running, 0, 0.1, 0.02 + 0.001 * running))
    LearntLimit(last, path).keep()
    assert following.desk.engine_fit.knee_seats() is None
    LearntLimit(following, path).recall()
    assert following.desk.engine_fit.knee_seats() == pytest.approx(last.desk.engine_fit.knee_seats())
    assert following.desk.limit == 8


@pytest.mark.parametrize("content", ["{}", '{"limit": {"policy": "aimd"}, "seats": 0, "policy": {}}'])
def test_a_limit_that_is_none_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str) -> None:
    """The warning names the file and the reason; the limit starts from the preset's seats."""
    path, gate = tmp_path / "limit.json", gate_with()
    path.write_text(content)
    LearntLimit(gate, path).recall()
    assert gate.desk.limit == 4
    assert caplog.messages == [f"the learnt limit is not used: {path}: not what Headway writes"]
