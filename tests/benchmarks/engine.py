"""``make bench-engine``: a lasting overload, the memory of what waits, and little KV space, on the real engine.

--strict   exit code 1 on a miss
--write    put the table into deploy/site/docs/measured/engine.md

The tiny model of the tests, on the processor; about fifteen minutes. The capacity is measured anew before each arm, and
each figure is a ratio to it: the speed of a shared machine changes within minutes.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

from accepted import ENGINE
from command import Goals, run
from goal import Goal
from kv_space import kv_space
from retry_storms import retry_storms
from serving.client import TINY, Answer, closed_loop, open_loop, started
from waiting import waiting

from headway_policies import Preset, bundled_presets
from headway_simulator.traffic.workload import Request

PAGE = Path(__file__).resolve().parents[2] / "deploy/site/docs/measured/engine.md"

CAPACITY_S, OVERLOAD_S, BEGIN_S, LOAD = 20.0, 70.0, 25.0, 1.3
SEATS, MODEL_LEN, SETTLE_S = 32, 1024, 60.0
LEAD_S, CLIENTS = 15.0, 48  # half as many again as there are seats: none is ever free


def overload() -> Iterator[Goal]:
    """Default: ``balanced`` at 1.3 times what the engine serves, with its objectives and without"""
    served_of, late, cut = asyncio.run(_overload())
    note = f"without objectives {late:.2f}; served at all {served_of:.2f}"
    yield Goal("default", "served within the objective at load 1.3 : capacity", 0.75, cut, note=note)
    yield Goal("default", "the same, with objectives : without", 1.5, cut / max(late, 1e-9))


def _classes(random: Random) -> Request:
    """Chat of three classes: 15 % realtime, 65 % normal, 20 % batch; answers of 100 to 300 tokens."""
    (name,) = random.choices(("realtime", "normal", "batch"), (0.15, 0.65, 0.2))
    return Request(0.0, name, random.randint(16, 64), random.randint(100, 300))


def _without_objectives(preset: Preset) -> Preset:
    classes = {
        name: one.model_copy(update={"ttft_slo_s": None, "reserved_seats": 0}) for name, one in preset.classes.items()
    }
    return preset.model_copy(update={"name": "without-objectives", "classes": classes})


async def _overload() -> tuple[float, float, float]:
    """Served at all, and within the objective without and with objectives, each as a share of the capacity.

    The capacity is measured anew before each arm. Both have the objectives that ``balanced`` has on this engine.
    """
    balanced = bundled_presets()["balanced"]
    without, blocks = _without_objectives(balanced), list[tuple[float, list[Answer]]]()
    async with started(TINY, without, SEATS, MODEL_LEN) as engine:
        for preset in (without, balanced):
            await engine.use(without)
            full = await closed_loop(engine.gated, _classes, CLIENTS, LEAD_S, CAPACITY_S)
            capacity = sum(one.end == "completed" for one in full) / CAPACITY_S
            await engine.use(preset)
            answers = await open_loop(engine.gated, list(_arrivals(LOAD * capacity)), OVERLOAD_S + SETTLE_S)
            blocks.append((capacity, answers))
        slo_s = {name: engine.first_token_slo_s(name) for name in balanced.classes}
    (_, late), (served, cut) = [[rate / capacity for rate in _rates(answers, slo_s)] for capacity, answers in blocks]
    return served, late, cut


def _arrivals(rate_per_s: float) -> Iterator[Request]:
    """Poisson arrivals, the same ones for the same rate."""
    random, at_s = Random(1), 0.0
    while (at_s := at_s + random.expovariate(rate_per_s)) < OVERLOAD_S:
        yield _classes(random)._replace(at_s=at_s)


def _rates(answers: list[Answer], slo_s: Mapping[str, float]) -> tuple[float, float]:
    """Requests a second that were served, and that were served within the objectives, once the queue could stand."""
    began_s = min(answer.sent_s for answer in answers) + BEGIN_S
    served = [answer for answer in answers if answer.sent_s >= began_s and answer.end == "completed"]
    length_s = OVERLOAD_S - BEGIN_S
    in_time = sum((one.ttft_s or 0.0) <= slo_s[one.class_name] for one in served)
    return len(served) / length_s, in_time / length_s


GOALS: Goals = {"overload": overload, "memory": waiting, "kv": kv_space, "storms": retry_storms}

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], GOALS, ENGINE, PAGE, help_text=__doc__ or ""))
