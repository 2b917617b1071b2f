"""The diagnosis in the status: what limits the server, the evidence, and the remedies."""

from __future__ import annotations

from pydantic import Field

from headway.api.schema.base import Answer


class Evidence(Answer):
    """A figure of the last half minute, and the bound that it was compared with; ``class.figure`` for a class."""

    figure: str
    value: float
    bound: float | None = Field(default=None, description="null: the figure stands alone.")


class Remedy(Answer):
    """A remedy, its cost, and the command that does it; empty where it is not one command."""

    action: str
    cost: str = ""
    command: str = ""


class Diagnosis(Answer):
    """The bottleneck of the server, its severity, the symptoms in a sentence each, and the remedies, the best first."""

    severity: str = Field(description="ok, watch, degraded, overloaded or down")
    bottleneck: str = Field(description="The cause that limits: seats, engine_speed, memory, ...; none: nothing does.")
    statement: str
    symptoms: list[str] = Field(default=[])
    evidence: list[Evidence] = Field(default=[])
    remedies: list[Remedy] = Field(default=[])
