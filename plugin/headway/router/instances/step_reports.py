"""The work of the instances as steps of one engine, for the policies that follow an engine's steps.

    the engine itself an engine of this process's own server writes each step down (``StepSource``); while it does,
                      nothing else is a step
    a stream          the gaps between its tokens (``stream_pace``), reported several times a second
    the metrics       where no stream was timed since the last report: vLLM's own count of the gaps between tokens
    neither           the load alone; what a preset says of the time between tokens has no effect then

A server that this process has started is watched as an engine is: without new tokens no step is reported, or a hanging
server would seem to work. Instances of others are watched by their heartbeats. The times of a stream are also counted
for its instance, for the metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, Protocol

from headway.admission import loop_time_s
from headway.engine import StepListener
from headway.router.instances.instance import InstanceLink
from headway.router.instances.pool import InstancePool
from headway.router.instances.reading import InstanceReading
from headway.router.instances.stream_pace import SAME_STEP_S, Steps, Stream, StreamPace
from headway_policies import Load

_MOST_STEPS: Final = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class TimedStream:
    """A stream that began then, and its instance."""

    stream: Stream
    link: InstanceLink
    began_s: float

    def came(self, tokens: int, now_s: float) -> None:
        """Count the time of tokens that come at once, before the stream itself hears of them."""
        last_s = self.stream.last_s
        if last_s is None:
            self.link.first_token.add(now_s - self.began_s, now_s)
        elif not self.stream.late and now_s - last_s >= SAME_STEP_S:
            self.link.inter_token.add((now_s - last_s) / tokens, now_s)


class StepSource(Protocol):
    """The steps of an engine, as it has written them down; ``written``: whether each of its ranks does."""

    written: list[bool]

    def read(self) -> Sequence[tuple[Load, int]]:
        """The steps since the last call, each with its number of sequences. Cheap where there are none."""
        ...

    def forget(self) -> None:
        """Drop what is left of ranks that have ended; nothing is expected of the next ones until each writes a step."""
        ...


class StepReports:
    """The reports to a listener; None without a listener. ``source`` is the engine itself, where it says."""

    def __init__(self, pool: InstancePool, source: StepSource | None = None) -> None:
        self.listener: StepListener | None = None
        self._pool = pool
        self._source = source
        self._stepped = False  # by the source, since the last report
        self._kv_capacity_tokens: int | None = None
        self._pace = StreamPace()
        self._untimed = 0
        self._timed = False
        self._progress = 0
        self._before: dict[str, InstanceReading] = {}
        self._reported_s = loop_time_s()

    @contextmanager
    def timed(self, prompt_tokens: int, link: InstanceLink, *, streams: bool) -> Iterator[TimedStream | None]:
        """The stream of a request with this instance; None where its tokens cannot be timed.

        These are several sequences, or a response that comes as a whole.
        """
        if not streams:
            self._untimed += 1
            try:
                yield None
            finally:
                self._untimed -= 1
            return
        stream = self._pace.began(prompt_tokens)
        try:
            yield TimedStream(stream, link, loop_time_s())
        finally:
            self._pace.ended(stream)

    def came(self, timed: TimedStream | None, tokens: int) -> None:
        """Note tokens of a stream that came at once."""
        self._read()
        if timed is None or not tokens:
            return
        now_s = loop_time_s()
        timed.came(tokens, now_s)
        if self._told:
            return
        steps = self._pace.came(timed.stream, tokens, now_s)
        if steps is not None and self.listener is not None:
            self._timed = True
            first_tokens = None if self._untimed else steps.first_tokens
            load = _with(self._pool.load(), steps)
            self.listener.step(replace(load, first_tokens=first_tokens), 0, ())

    def taken(self, timed: TimedStream | None) -> None:
        """Note that the client has taken what came last, soon or late."""
        if timed is not None:
            timed.stream.taken(loop_time_s())

    def report(self) -> None:
        """Tell the listener that every instance was read."""
        self._read()
        if self._told:
            self._report_told()
        else:
            self._report_seen()

    def engine_gone(self) -> None:
        """Expect no steps of the engine until the next one has written some."""
        if self._source is not None:
            self._source.forget()

    @property
    def _told(self) -> bool:
        """Whether the engine writes down its steps."""
        return self._source is not None and any(self._source.written)

    def _read(self) -> None:
        """Report the steps that the engine has written down."""
        if self._source is None or self.listener is None:
            return
        for load, sequences in self._source.read():
            self._stepped = True
            waiting = load.waiting + self._pool.waiting
            known = replace(load, waiting=waiting, kv_capacity_tokens=self._kv_capacity_tokens)
            self.listener.step(known, sequences, ())

    def _report_told(self) -> None:
        """Pass on the readings and the size of an engine without steps."""
        load, stepped, self._stepped = self._pool.load(), self._stepped, False
        self._kv_capacity_tokens = load.kv_capacity_tokens
        if self.listener is not None and not stepped:
            self.listener.seen(load)

    def _report_seen(self) -> None:
        """Report what the instances' own counts show."""
        now_s, links = loop_time_s(), self._pool.links
        progress = sum(link.progress for link in links.values())
        grown = [_grown(self._before.get(name, link.reading), link.reading) for name, link in links.items()]
        self._before = {name: link.reading for name, link in links.items()}
        elapsed_s, self._reported_s = now_s - self._reported_s, now_s
        timed, self._timed = self._timed, False
        stood, self._progress = progress == self._progress, progress
        load = self._pool.load()
        self._kv_capacity_tokens = load.kv_capacity_tokens
        if self.listener is None:
            return
        first_tokens = None if self._untimed else 0  # those of streams are reported as they come
        preemptions = int(sum(growth.preemptions for growth in grown))
        load = replace(load, preemptions=preemptions, first_tokens=first_tokens)
        if stood and any(link.exclusive for link in links.values()):
            self.listener.seen(load)
            return
        steps = None if timed else _counted(grown, elapsed_s)
        self.listener.step(load if steps is None else _with(load, steps), 0, ())


def _with(load: Load, steps: Steps) -> Load:
    return replace(load, inter_token_s=steps.step_s, steps=steps.count, prefill_tokens=steps.prefill_tokens)


def _counted(grown: list[InstanceReading], elapsed_s: float) -> Steps | None:
    """The steps since the last report, by the instances' own counts; None where they have none."""
    gaps, gaps_s = sum(growth.gaps for growth in grown), sum(growth.gaps_s for growth in grown)
    if gaps <= 0 or gaps_s <= 0:
        return None
    step_s = gaps_s / gaps
    count = max(1, min(round(elapsed_s / step_s), _MOST_STEPS))
    return Steps(count, step_s, round(sum(growth.prompt_tokens for growth in grown) / count), 0)


def _grown(before: InstanceReading, now: InstanceReading) -> InstanceReading:
    """The counts of a reading since the one before; 0 where they fell: the instance has begun anew."""
    if now.tokens < before.tokens:
        return InstanceReading()
    return InstanceReading(
        prompt_tokens=max(0.0, now.prompt_tokens - before.prompt_tokens),
        gaps=max(0.0, now.gaps - before.gaps),
        gaps_s=max(0.0, now.gaps_s - before.gaps_s),
        preemptions=max(0.0, now.preemptions - before.preemptions),
    )
