"""The time between tokens of engines that are seen through their streams alone, as steps of one engine.

A sequence gets a token in each step, so the gaps between the tokens of a stream are the engine's steps, and the median
of the mean gaps of all streams that run is robust against those whose server holds text back (a tool call that is
parsed, half a character). A window is closed by the first stream that repeats itself once ``WINDOW_S`` has passed,
sooner where another one had its first token meanwhile, or after ``WINDOW_STEPS`` tokens of one: by then every other one
has had its token of the same step.

The effect of a client on its own stream tells nothing of the engine: one that reads late is left out until it waits for
the engine again, and a window whose steps do not fill its time is dropped.

Several instances that share their requests evenly are taken for one engine: each of n instances runs one n-th of the
sequences, so a sequence more costs the mean step one n-th of what it costs an instance.

Weak spots: a stream that hands on several tokens in one event seems slow by as many times; prompts are counted at their
first token, by the length that was estimated, whether they were in a cache or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

WINDOW_S = 0.1
SHORT_WINDOW_S = 0.01
WINDOW_STEPS = 8
#: Tokens of a stream that are not so far apart were made in one step: several events of one token.
SAME_STEP_S = 0.001
#: A client that takes so long for one piece reads late.
LATE_S = 0.05
#: The steps of a window fill at least this part of it.
_LEAST_RATIO = 0.25


@dataclass(frozen=True, slots=True)
class Steps:
    """``count`` steps of ``step_s`` seconds on the mean.

    In each of them ``prefill_tokens`` of a prompt were computed; in all of them ``first_tokens`` streams began.
    """

    count: int
    step_s: float
    prefill_tokens: int
    first_tokens: int


@dataclass(slots=True, eq=False)
class Stream:
    """A stream: when its last token came, None before the first; its tokens of this window, and the time of them.

    Where its client reads late, the next tokens were made before: they tell nothing until the stream waits again.
    """

    prompt_tokens: int
    last_s: float | None = None
    tokens: int = 0
    took_s: float = 0.0
    late: bool = False

    def taken(self, now_s: float) -> None:
        """Note that the client has taken what came last."""
        if self.last_s is not None and now_s - self.last_s > LATE_S:
            self.late = True
            self.last_s = now_s


class StreamPace:
    """The pace of the streams between ``began`` and ``ended``. A token costs O(1), closing a window O(streams)."""

    def __init__(self) -> None:
        self._streams: set[Stream] = set()
        self._opened_s: float | None = None  # when the first token of the window was begun
        self._prompt_tokens = self._first_tokens = 0

    def began(self, prompt_tokens: int) -> Stream:
        """Note a request of one sequence that was sent, and whose response is a stream."""
        stream = Stream(prompt_tokens)
        if not self._streams:
            self._opened_s = None  # what a stream left there that has ended is long ago
        self._streams.add(stream)
        return stream

    def ended(self, stream: Stream) -> None:
        """Note the end of its response."""
        self._streams.discard(stream)

    def came(self, stream: Stream, tokens: int, now_s: float) -> Steps | None:
        """Note tokens that came at once; returns the steps of a window that they close, None where they close none."""
        last_s, closed = stream.last_s, None
        if last_s is None:
            self._prompt_tokens += stream.prompt_tokens
            self._first_tokens += 1
        elif now_s - last_s < SAME_STEP_S:
            return None
        elif stream.late:
            stream.late = False
        else:
            if stream.tokens and self._opened_s is not None and self._is_over(stream, now_s - self._opened_s):
                closed = self._close(now_s - self._opened_s)
            if self._opened_s is None:
                self._opened_s = last_s
            stream.tokens += tokens
            stream.took_s += now_s - last_s
        stream.last_s = now_s
        return closed

    def _is_over(self, stream: Stream, lasted_s: float) -> bool:
        soon = self._first_tokens > 0 or stream.tokens >= WINDOW_STEPS
        return lasted_s >= (SHORT_WINDOW_S if soon else WINDOW_S)

    def _close(self, lasted_s: float) -> Steps | None:
        """The steps of the window; None where the window cannot be a row of steps."""
        seen = [stream for stream in self._streams if stream.tokens]
        step_s = median(stream.took_s / stream.tokens for stream in seen)
        count = max(1, round(median(stream.tokens for stream in seen)))
        for stream in seen:
            stream.tokens, stream.took_s = 0, 0.0
        prompt_tokens, self._prompt_tokens = self._prompt_tokens, 0
        first_tokens, self._first_tokens = self._first_tokens, 0
        self._opened_s = None
        if count * step_s < _LEAST_RATIO * lasted_s:
            return None
        return Steps(count, step_s, round(prompt_tokens / count), first_tokens)
