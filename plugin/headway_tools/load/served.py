"""The end of one request, as its client saw it."""

from __future__ import annotations

from dataclasses import dataclass

COMPLETED = "completed"
REFUSED = "refused"
FAILED = "failed"
#: Neither an answer nor a refusal: the connection broke, the stream was cut, or nothing came in time.
UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True)
class Served:
    """The end of a request. ``why`` is the reason where it was not completed.

    ``retry_after_s`` is the advice in a refusal, ``inter_token_s`` the mean time between its tokens.
    """

    class_name: str
    ending: str
    ttft_s: float | None = None
    output_tokens: int = 0
    why: str = ""
    retry_after_s: int | None = None
    inter_token_s: float | None = None

    def within(self, ttft_s: float, inter_token_s: float) -> bool:
        """Whether the request was completed within both objectives, as ``headway simulate`` counts it."""
        if self.ending != COMPLETED or self.ttft_s is None or self.ttft_s > ttft_s:
            return False
        return self.inter_token_s is None or self.inter_token_s <= inter_token_s
