"""The common parts of several answers: the base of all, the preset in force, and the costs of a step."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

#: The value of one preset setting, as in the preset file.
Setting = str | int | float | bool | list[str] | list[int]


class Answer(BaseModel):
    """The base of all answers."""

    model_config = ConfigDict(extra="allow", frozen=True, json_schema_serialization_defaults_required=True)


class PresetInForce(Answer):
    """The preset in force: its name, and its revision, which grows by one with every switch."""

    name: str
    revision: int


class StepTime(Answer):
    """The step time of the engine, fitted from its own steps: ``base_s`` + ``sequence_s`` for each running sequence +
    ``prompt_token_s`` for each prompt token that is computed in it."""

    base_s: float
    sequence_s: float
    prompt_token_s: float
    error_ratio: float = Field(description="Mean of |predicted - measured| / measured of its recent steps.")
