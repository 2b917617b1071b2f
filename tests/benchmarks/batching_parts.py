"""The parts of ``make bench-batching``: those on the tiny model, where time is cheap, and the files of all results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import answer_spread
import equal_load
from goal import Goal
from serving.arms import without_bounds
from serving.client import TINY, started
from serving.machine import describe, in_words
from serving.quiet import Times, others_share

from headway_policies.batching import Batching

SIZES_PART, LATENCY, SPREAD = "sizes", "latency", "spread"
TITLES = {
    SIZES_PART: "Batches of 1 to 64, and each strategy",
    LATENCY: "Mean latency at equal load",
    SPREAD: "Continuous batches against static ones, by the spread of the answers",
}
#: Seeds, requests and batches of a trial: does all of it work?
_SHORT_SEEDS, _SHORT_REQUESTS, _SHORT_BATCHES = (1, 2), 20, 1
_MODEL_LEN = 1024


@dataclass(frozen=True, slots=True)
class Part:
    """One part: its table, its goals, all of its figures, and the share of the processors that other programs used."""

    table: str
    goals: tuple[Goal, ...]
    figures: list[dict[str, Any]]
    others: float
    machine: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The table, and where it was measured."""
        return f"{self.table}\n\n({in_words(self.machine)}; other programs used {self.others:.0%} of the processors)"


async def play(name: str, say: Callable[[str, float], None], *, short: bool) -> Part:
    """The part of this name."""
    seeds = _SHORT_SEEDS if short else equal_load.SEEDS
    preset = without_bounds(Batching(seats=equal_load.SEATS, window_ms=0))
    async with started(TINY, preset, equal_load.SEATS, _MODEL_LEN) as engine:
        before = Times.now()
        if name == LATENCY:
            pairs = await equal_load.measure(engine, say, seeds, _SHORT_REQUESTS if short else equal_load.REQUESTS)
            shown, goals, figures = equal_load.tables(pairs), equal_load.goals(pairs), [asdict(one) for one in pairs]
        else:
            rates = await answer_spread.measure(engine, say, seeds, _SHORT_BATCHES if short else answer_spread.BATCHES)
            shown, goals, figures = (
                answer_spread.tables(rates),
                answer_spread.goals(rates),
                [asdict(one) for one in rates],
            )
        return Part(shown, tuple(goals), figures, others_share(before, Times.now()), describe(TINY))


def keep(folder: Path, name: str, part: Part, text: str) -> Path:
    """Write the figures and the text of a part into the files of this processor; the path of the figures."""
    where = part.machine["gpu"] or part.machine["processor"]
    words = re.sub(r"\(r\)|\(tm\)|processor", "", where.lower())
    path = folder / f"{'-'.join(re.findall(r'[a-z0-9]+', words))}-batching-{name}.json"
    plain = {"machine": part.machine, "others": part.others, "figures": part.figures}
    path.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(f"# {TITLES[name]}\n\n{text}\n", encoding="utf-8")
    return path
