"""The step: how many prompt tokens an engine computes beside the sequences that decode."""

from headway_policies.step.figures import StepFigures
from headway_policies.step.policy import Plan, Prompt, StepPolicy
from headway_policies.step.settings import StepSettings, StepTerms

__all__ = ["Plan", "Prompt", "StepFigures", "StepPolicy", "StepSettings", "StepTerms"]
