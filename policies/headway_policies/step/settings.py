"""The settings of the step policy, and the facts of the preset in force for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from headway_policies.request import PriorityClass, shortest

PrefillShare = Literal["off", "auto"] | Annotated[float, Field(ge=0.1, le=0.95)]


class StepSettings(BaseModel):
    """``[step]`` of a preset: what of a step goes to prompts, while sequences decode beside them.

    ``prefill_share`` is a share of the step's time; ``auto``: as much as the objectives leave (``StepPolicy``), and the
    engine's own choice where no class has one for the time between tokens; ``off``: the engine's own choice.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    prefill_share: PrefillShare = "auto"


@dataclass(frozen=True, slots=True)
class StepTerms:
    """The bounds that the policy keeps: the share, and objectives, absolute or relative to the engine.

    ``first_token_s`` has one for each class that states any, by the priority that its sequences have in the engine.
    """

    prefill_share: PrefillShare
    inter_token_ms: float | str | None = None
    first_token_s: Mapping[int, float | str] | None = None

    @classmethod
    def of(cls, settings: StepSettings, classes: Mapping[int, PriorityClass]) -> StepTerms | None:
        """The terms of classes by their priority in the engine; None where the engine is left to itself."""
        share = settings.prefill_share
        inter_token_ms = shortest([settings.inter_token_slo_ms for settings in classes.values()])
        if share == "off" or (share == "auto" and inter_token_ms is None):
            return None
        first = {place: one.ttft_slo_s for place, one in classes.items() if one.ttft_slo_s is not None}
        return cls(share, inter_token_ms, first)

    def plain(self) -> dict[str, Any]:
        """The terms as a message to another process."""
        first = {str(place): objective for place, objective in (self.first_token_s or {}).items()}
        return {"prefill_share": self.prefill_share, "inter_token_ms": self.inter_token_ms, "first_token_s": first}

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> StepTerms:
        """The terms of such a message."""
        first = {int(place): objective for place, objective in plain["first_token_s"].items()}
        return cls(plain["prefill_share"], plain["inter_token_ms"], first)
