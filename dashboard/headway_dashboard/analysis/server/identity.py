"""The identity of the watched server: its address, model and versions, and for how long it has run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.queries.expressions import Expression, Gauge, Metric
from headway_dashboard.analysis.queries.model import newest
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.server.newest_values import presets_in_force, running_preset
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.analysis.units import duration

#: The engine's own metrics carry the model's name.
MODEL = Gauge(Metric("vllm:num_requests_running", by=("model_name",)), largest=True)
BUILD = Gauge(Metric("headway_build_info", by=("version", "backend")), largest=True)
LAST_CHANGE = Gauge(Metric("headway_last_change_timestamp_seconds"), largest=True)

EXPRESSIONS: tuple[Expression, ...] = (MODEL, BUILD, LAST_CHANGE, panels.PRESET)

_FIRST_REVISION = "1"
#: So many different presets of several servers are named.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a server. Texts are empty, and ``up_s`` is None, where they are not known.

    Of several servers ``up_s`` is that of the one that was started last, ``longest_up_s`` that of the first.
    """

    address: str
    model: str = ""
    headway: str = ""
    vllm: str = ""
    backend: str = ""
    up_s: float | None = None
    longest_up_s: float | None = None
    preset: str = ""
    revision: str = ""
    preset_s: float | None = None

    @property
    def words(self) -> str:
        """The identity in one line, separated by dots."""
        parts = [
            self.address,
            f"model {self.model}" if self.model else "",
            f"vLLM {self.vllm}" if self.vllm else "",
            f"Headway {self.headway}" if self.headway else "",
            self.backend,
            self._up,
        ]
        return " · ".join(part for part in parts if part)

    @property
    def _up(self) -> str:
        times_s = (self.up_s, self.longest_up_s)
        words = dict.fromkeys(duration(round(time_s)) for time_s in times_s if time_s is not None)
        return f"up {' to '.join(words)}" if words else ""

    @property
    def preset_words(self) -> str:
        """The preset in force with its revision; empty where it is not known."""
        return f"{self.preset} · revision {self.revision}" if self.revision else self.preset


def identity_of(address: str, reading: SourceReading, status: Status, now_s: float) -> Identity:
    """The identity by the status, else by the metrics. ``reading`` holds ``EXPRESSIONS``."""
    version, backend = _labels(reading, BUILD, 2)
    (model,) = _labels(reading, MODEL, 1)
    preset, revision = _preset(reading)
    changed_s = newest(reading[LAST_CHANGE].line())
    since_s = None if not changed_s else max(0.0, now_s - changed_s)
    return Identity(
        address=address,
        model=status.model or model,
        headway=status.version or version,
        vllm=status.engine.version,
        backend=status.engine.backend or backend,
        up_s=_up_s(status, revision, since_s),
        longest_up_s=max((own.uptime_s for own in status.servers.values() if own.uptime_s is not None), default=None),
        preset=preset,
        revision=revision,
        preset_s=since_s,
    )


def is_plain_vllm(reading: SourceReading) -> bool:
    """Whether the engine reports its metrics, and no Headway does. ``reading`` holds ``EXPRESSIONS``."""
    engine, headway = (
        any(line and line[-1] is not None for line in reading[asked].lines.values()) for asked in (MODEL, BUILD)
    )
    return engine and not headway


def _preset(reading: SourceReading) -> tuple[str, str]:
    """The preset in force and its revision; of several servers each of them, or how many they are."""
    in_force = presets_in_force(reading)
    if len(reading.instances) < 2 or len(in_force) < 2:
        return running_preset(reading)
    ordered = sorted(in_force, key=lambda labels: (labels[0], len(labels[1]), labels[1]))
    names = list(dict.fromkeys(name for name, _ in ordered))
    if len(names) == 1:
        return f"{names[0]} · revisions {', '.join(revision for _, revision in ordered)}", ""
    if len(ordered) > _NAMED:
        return f"{len(names)} presets", ""
    return ", ".join(f"{name} · revision {revision}" for name, revision in ordered), ""


def _up_s(status: Status, revision: str, preset_s: float | None) -> float | None:
    """Without a status: the first preset is as old as the server."""
    if status.uptime_s is not None:
        return status.uptime_s
    return preset_s if revision == _FIRST_REVISION else None


def _labels(reading: SourceReading, expression: Expression, count: int) -> Iterable[str]:
    """The labels of a line with a present value, else of any line, else empty texts."""
    lines = reading[expression].lines
    present = [labels for labels, line in lines.items() if line and line[-1] is not None]
    return next(iter(present or lines), ("",) * count)
