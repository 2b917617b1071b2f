"""The file that a run keeps its blocks in, one after another, so that a long run goes on where it was stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headway_simulator.engine_model.capacity import Slo
from headway_simulator.engine_model.engine import EngineModel
from serving.constants import Constants, Level
from serving.figures import BlockFigures
from serving.streams import Beside

BESIDE = "beside"  # the blocks of streams, among the workloads whose arms have words


@dataclass(frozen=True, slots=True)
class Key:
    """Which block: a workload, a load, an arm, and the round."""

    workload: str
    load: float
    arm: str
    round: int


@dataclass(slots=True)
class Results:
    """What a run has measured so far. ``machine`` and ``form`` describe it; ``arms`` of a workload have words each.

    ``beside`` are the blocks of streams beside long prompts, ``chat`` the tokens a second of plain chat by arm.
    """

    path: Path
    machine: dict[str, Any] = field(default_factory=dict)
    form: dict[str, Any] = field(default_factory=dict)
    constants: Constants | None = None
    blocks: dict[Key, BlockFigures] = field(default_factory=dict)
    arms: dict[str, dict[str, str]] = field(default_factory=dict)
    layer: list[dict[str, float]] = field(default_factory=list)
    beside: list[Beside] = field(default_factory=list)
    chat: list[tuple[str, float]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Results:
        """The results in a file; empty ones where there is none."""
        if not path.is_file():
            return cls(path)
        plain = json.loads(path.read_text(encoding="utf-8"))
        blocks = {
            Key(one["workload"], one["load"], one["arm"], one["round"]): BlockFigures.of_json(one["figures"])
            for one in plain["blocks"]
        }
        constants = _constants(plain["constants"])
        beside = [Beside.of_json(one) for one in plain.get("beside", ())]
        chat = [(name, per_s) for name, per_s in plain.get("chat", ())]
        own = plain["machine"], plain["form"], constants, blocks, plain["arms"], plain["layer"]
        return cls(path, *own, beside, chat)

    def write(self) -> None:
        """Write all of it, at once or not at all."""
        plain = {
            "machine": self.machine,
            "form": self.form,
            "constants": None if self.constants is None else asdict(self.constants),
            "arms": self.arms,
            "blocks": [{**asdict(key), "figures": one.to_json()} for key, one in self.blocks.items()],
            "layer": self.layer,
        }
        if self.beside:
            plain |= {"beside": [asdict(one) for one in self.beside], "chat": self.chat}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        written = self.path.with_suffix(".part")
        written.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
        written.replace(self.path)

    def named(self, workload: str) -> Mapping[str, str]:
        """The arms that a workload was played with, and the words for each."""
        return self.arms.get(workload, {})

    def parts(self) -> list[tuple[str, float]]:
        """The workloads and loads that were played, in the order of the run."""
        return list(dict.fromkeys((key.workload, key.load) for key in self.blocks))

    def of(self, workload: str, load: float, arm: str) -> list[BlockFigures]:
        """The blocks of one arm at one load."""
        return [one for key, one in self.blocks.items() if (key.workload, key.load, key.arm) == (workload, load, arm)]


def _constants(plain: Mapping[str, Any] | None) -> Constants | None:
    if plain is None:
        return None
    levels = tuple(Level(**one) for one in plain["levels"])
    return Constants(EngineModel(**plain["model"]), Slo(**plain["slo"]), levels)
