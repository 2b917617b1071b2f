"""The figures of the step policy: what came of the steps that had a plan."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class StepFigures:
    """The steps that had a plan, since the engine's start; all but ``held_s`` only grow.

    ``pressed`` ones gave prompts more than usual, so that none missed its objective; ``held`` ones left tokens of a
    prompt for later. ``decode_tokens`` came from the sequences beside the prompts, ``budget_tokens`` is the most that
    was allowed of both. Of the steps' time, ``prompt_s`` went to prompts by the fitted costs, and ``target_s`` was to
    go there by the plans. ``held_s``: for how long the prompt that has waited longest had been there at the last step
    that held one.
    """

    steps: int = 0
    pressed: int = 0
    held: int = 0
    prompt_tokens: int = 0
    decode_tokens: int = 0
    budget_tokens: int = 0
    total_s: float = 0.0
    prompt_s: float = 0.0
    target_s: float = 0.0
    held_s: float = 0.0

    @property
    def prefill_share(self) -> float:
        """The share of the time that went to prompts; 0 before the first plan."""
        return self.prompt_s / self.total_s if self.total_s else 0.0

    @property
    def target_share(self) -> float:
        """The share that was to go there."""
        return self.target_s / self.total_s if self.total_s else 0.0

    def since(self, before: StepFigures) -> StepFigures:
        """The growth since then; all of it where the engine has been replaced meanwhile."""
        if self.steps < before.steps:
            return self
        grown = {field.name: getattr(self, field.name) - getattr(before, field.name) for field in fields(self)}
        return StepFigures(**(grown | {"held_s": self.held_s if self.held > before.held else 0.0}))

    def __add__(self, other: StepFigures) -> StepFigures:
        """The figures of two engines together."""
        total = {field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)}
        return StepFigures(**(total | {"held_s": max(self.held_s, other.held_s)}))
