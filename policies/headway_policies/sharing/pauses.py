"""Pauses of one model while another one peaks, bounded in length and followed by a rest."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PauseTerms:
    """A pause lasts ``longest_s`` at most; the next one begins ``rest_s`` after its end at the earliest."""

    longest_s: float = 30.0
    rest_s: float = 30.0

    def __post_init__(self) -> None:
        if not (self.longest_s > 0 and self.rest_s > 0):
            raise ValueError(f"longest_s and rest_s must be above 0, not {self.longest_s} and {self.rest_s}")


class ModelPause:
    """The pause of one model. ``now_s`` never runs backwards."""

    def __init__(self, terms: PauseTerms) -> None:
        self._terms = terms
        self._began_s: float | None = None
        self._ended_s: float | None = None

    def update(self, wanted: bool, now_s: float) -> bool:
        """Whether the model is paused now, where that is ``wanted``."""
        terms = self._terms
        if self._began_s is not None:
            if wanted and now_s - self._began_s < terms.longest_s:
                return True
            self._began_s, self._ended_s = None, now_s
        elif wanted and (self._ended_s is None or now_s - self._ended_s >= terms.rest_s):
            self._began_s = now_s
            return True
        return False
