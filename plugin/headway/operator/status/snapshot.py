"""Snapshot of one server: its status, and what the metrics show besides, as they were in one instant.

``headway.operator.status.snapshot_reader`` takes one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headway.api.schema import Status
from headway.distribution import DistributionReading
from headway_policies import ClassLedger, EngineState
from headway_policies.diagnosis import Diagnosis
from headway_policies.fallback import Degradation, Rung, Trigger

#: The ``backend`` of an engine that computes nothing.
SIMULATED: Final = "simulated"


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """The model that a server serves, by its public name, the device type that it runs on, all ``names`` of it, and
    those of the ``adapters`` that it was started with.

    An engine of the backend ``SIMULATED`` is no vLLM, whatever is installed here.
    """

    model: str = ""
    backend: str = ""
    names: frozenset[str] = frozenset()
    adapters: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A server in one instant.

    ``ledgers`` has the counts of each class. ``reach`` is the most that the limit may come to under this preset.
    ``steps`` are the moves of the fallback ladder, ``degraded`` the requests that it degraded. ``switches`` are by
    preset, the last one at ``last_change_s`` (seconds since the epoch). ``effect_errors`` are those of the gate, where
    any is a defect; ``audit_lost`` lines of the audit could not be written to its files. ``loop_lag`` is how late the
    event loop was, ``compiling_s`` the age of the grammar that the engine has been compiling for longest.
    """

    status: Status
    ledgers: Mapping[str, ClassLedger]
    diagnosis: Diagnosis
    engine: EngineState
    preemptions: int
    compiling_s: float
    engine_bytes: Mapping[str, int]
    gc_pauses: tuple[DistributionReading, ...]
    loop_lag: DistributionReading
    warmup_s: Mapping[str, float]
    reach: int
    rung: Rung
    steps: Mapping[tuple[Rung, Trigger], int]
    degraded: Mapping[tuple[str, Degradation], int]
    switches: Mapping[str, int]
    last_change_s: float
    effect_errors: int
    audit_lost: int
