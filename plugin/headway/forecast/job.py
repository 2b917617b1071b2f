"""The input of a forecast, packed for the process that computes it: lines of JSON, then the columns of the recording.

The input is packed piece by piece, so that no turn of the server's event loop is longer for it by a millisecond.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headway.errors import HeadwayError
from headway.recorder import Recording
from headway_policies import Preset
from headway_simulator import EngineModel, Variation

#: The most sequences of one replay: the newest ones. A core simulates some thousand a second.
MOST_SEQUENCES = 4000

_COLUMNS = (
    ("at_s", "d"), ("class_index", "H"), ("tenant", "I"), ("sequences", "H"), ("prompt_tokens", "I"),
    ("max_tokens", "I"), ("output_tokens", "I"),
)  # fmt: skip


class ForecastError(HeadwayError):
    """There can be no forecast. Its text is one line that says why."""


@dataclass(frozen=True, slots=True)
class Job:
    """The recorded traffic, the model of the engine and the presets to try, each ``seeds`` times.

    ``share`` is the part of one processor that may be used for it.
    """

    recording: Recording
    model: EngineModel
    presets: Sequence[Preset]
    seeds: int
    share: float = 1.0

    def pieces(self) -> Iterator[bytes]:
        """The job as bytes: a line of JSON, a line for each preset, and the columns; less than 1 ms of work each."""
        recorded = self.recording
        head = {
            "model": asdict(self.model),
            "presets": len(self.presets),
            "seeds": self.seeds,
            "share": self.share,
            "now_s": recorded.now_s,
            "span_s": recorded.span_s,
            "whole": recorded.whole,
            "class_names": list(recorded.class_names),
        }
        yield json.dumps(head).encode() + b"\n"
        for preset in self.presets:
            yield preset.model_dump_json().encode() + b"\n"
        for name, code in _COLUMNS:
            yield array(code, getattr(recorded, name)).tobytes()

    @classmethod
    def unpack(cls, packed: bytes) -> Job:
        """Read the joined ``pieces``."""
        line, _, rest = packed.partition(b"\n")
        head, columns, presets = json.loads(line), dict[str, Any](), list[Preset]()
        for _ in range(head["presets"]):
            line, _, rest = rest.partition(b"\n")
            presets.append(Preset.model_validate_json(line))
        rows = len(rest) // sum(array(code).itemsize for _, code in _COLUMNS)
        for name, code in _COLUMNS:
            column: array[float] = array(code)
            columns[name] = column
            size = rows * column.itemsize
            column.frombytes(rest[:size])
            rest = rest[size:]
        recording = Recording(head["now_s"], head["span_s"], head["whole"], tuple(head["class_names"]), **columns)
        return cls(recording, _model(head["model"]), presets, head["seeds"], head["share"])


def _model(table: dict[str, Any]) -> EngineModel:
    """The model of its packed form, in which a tuple is a list."""
    varied = table.pop("variation")
    if varied is None:
        return EngineModel(**table)
    parts = {name: _tuples(value) for name, value in varied.items()}
    return EngineModel(**table, variation=Variation(**parts))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
