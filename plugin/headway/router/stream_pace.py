"""The time between tokens of engines that are seen through their streams alone, as steps of one engine.

A sequence gets a token in each step, so the gaps between the events of a stream are the engine's steps, and the median
of the mean gaps of all streams that run is robust against those whose server holds text back (a tool call that is
parsed, half a character). A window is closed by the first stream that repeats itself once ``WINDOW_S`` has passed,
sooner where another one had its first token meanwhile, or after ``WINDOW_STEPS`` events of one: by then every other one
has had its token of the same step.

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


@dataclass(frozen=True, slots=True)
class Steps:
    """``count`` steps of ``step_s`` seconds on the mean. In each of them ``prefill_tokens`` of a prompt were computed;
    in all of them ``first_tokens`` streams began.
    """

    count: int
    step_s: float
    prefill_tokens: int
    first_tokens: int


@dataclass(slots=True, eq=False)
class Stream:
    """One stream: when its last event came, None before the first; its events of this window, and the time of them."""

    prompt_tokens: int
    last_s: float | None = None
    events: int = 0
    took_s: float = 0.0


class StreamPace:
    """Measures the streams between ``began`` and ``ended``. An event costs O(1), closing a window O(streams)."""

    def __init__(self) -> None:
        self._streams: set[Stream] = set()
        self._opened_s = 0.0
        self._prompt_tokens = self._first_tokens = 0

    def began(self, prompt_tokens: int) -> Stream:
        """A request of one sequence was sent, whose response is a stream."""
        stream = Stream(prompt_tokens)
        self._streams.add(stream)
        return stream

    def ended(self, stream: Stream) -> None:
        """Its response is over."""
        self._streams.discard(stream)

    def came(self, stream: Stream, events: int, now_s: float) -> Steps | None:
        """So many events came at once; the steps of the window that they close, None where they close none."""
        closed = None
        if stream.last_s is None:
            self._prompt_tokens += stream.prompt_tokens
            self._first_tokens += 1
        else:
            least_s = SHORT_WINDOW_S if self._first_tokens else WINDOW_S
            if stream.events >= WINDOW_STEPS or (stream.events and now_s - self._opened_s >= least_s):
                closed = self._close(now_s)
            stream.events += events
            stream.took_s += now_s - stream.last_s
        stream.last_s = now_s
        return closed

    def _close(self, now_s: float) -> Steps | None:
        paces = [one.took_s / one.events for one in self._streams if one.events]
        count = max(one.events for one in self._streams)
        for one in self._streams:
            one.events, one.took_s = 0, 0.0
        prompt_tokens, self._prompt_tokens = self._prompt_tokens, 0
        first_tokens, self._first_tokens = self._first_tokens, 0
        self._opened_s = now_s
        step_s = median(paces)
        return Steps(count, step_s, round(prompt_tokens / count), first_tokens) if step_s > 0 else None
