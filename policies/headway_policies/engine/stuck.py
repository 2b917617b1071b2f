"""The stuck watch: detects an engine that goes on stepping and serves nothing.

To the hang watchdog such an engine is well: it steps, and answers. This watch adds up the time in which it steps, has
sequences, and shows no service:

    a step serves      when a sequence has a token or ends in it, or a prompt is computed to its end
                       when the KV cache in use grows while as many sequences run as before, where the tokens of chunks
                       are not counted: a chunk of a long prompt was computed. Where the cache was full since the last
                       service, only more than that is growth: sequences that preempt one another compute the same
                       chunks again
    a step counts      for as long as it took, at most ``MOST_STEP_S``: a long step, a compilation and a stalled event
                       loop are the hang watchdog's. A step that computes prompt tokens counts neither way, so that no
                       new request of clients that give up hides a fault; where a sequence was preempted since the last
                       service, only while the cache grows
    an empty engine    takes back the time for which it was empty, beyond ``MOST_STEP_S``: clients that give up each
                       request and come again hide nothing, and what was hours ago says nothing
    the engine counts  as stuck after ``STUCK_RATIO`` of ``hang_after_s`` without service: so early that the diagnosis,
                       which is made every five seconds, says so within 15 s with the default

    cause         the first that holds
    KV_FULL       the KV cache is full, or was since the last service while something runs; not all are deferred
    NO_TOKENS     something runs
    GRAMMAR       nothing runs, and a grammar compiles
    DEFERRED      all requests wait for what no room in the engine gives them: KV blocks from elsewhere, mostly
    NOT_ADMITTED  none of that: the first in line may need more KV blocks than the cache has free

Nothing is ended for it: the time-outs of its requests empty the engine, and a cause outside of it, such as a store of
KV blocks, would meet the next one as well.

Each rank of data parallelism is judged by its own steps: what the others serve says nothing of it. All of them count as
one engine, as for the hang watchdog.

Weak spots: one stuck sequence among others is left to its own time-outs. A sequence that waits may be passed over or
preempted for others as long as these come, and nothing that the engine reports tells that from a fault. Where prompts
are computed in most steps, for clients that all give up, no step shows that none of them is answered. Where the tokens
of chunks are not counted, a chunk shows only where it needs another KV block.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from headway_policies.engine.restart_policy import Recovery

STUCK_RATIO = 0.75
MOST_STEP_S = 1.0
_KV_FULL = 0.9


class StuckCause(StrEnum):
    """Why an engine that steps serves nothing."""

    KV_FULL = "kv_full"
    NOT_ADMITTED = "not_admitted"
    GRAMMAR = "grammar"
    DEFERRED = "deferred"
    NO_TOKENS = "no_tokens"

    @property
    def blocks_others(self) -> bool:
        """Whether the engine would not serve another request either: deferred ones keep none waiting."""
        return self not in (StuckCause.GRAMMAR, StuckCause.DEFERRED)


#: Each cause as a clause, for readiness, the log and the diagnosis.
STUCK_WORDS = {
    StuckCause.KV_FULL: "the engine steps without any token: its KV cache is full",
    StuckCause.NOT_ADMITTED: "the engine steps and admits nothing, although its KV cache has room",
    StuckCause.GRAMMAR: "the engine computes nothing: all its requests wait for a grammar",
    StuckCause.DEFERRED: "the engine computes nothing: all its requests wait for data from other servers",
    StuckCause.NO_TOKENS: "the engine steps, and no running request gets a token",
}


class StuckWatch:
    """The watch over one engine, by its ranks."""

    def __init__(self) -> None:
        self._ranks: dict[int, _RankWatch] = {}
        self._worst = _RankWatch()

    def stepped(
        self,
        now_s: float,
        *,
        served: bool,
        running: int,
        waiting: int,
        deferred: int,
        kv_usage_ratio: float,
        computed: bool = False,
        preempted: bool = False,
        rank: int = 0,
    ) -> None:
        """A rank made a step. ``served``: a token, an end of a sequence or of a prompt; ``computed``: tokens of a
        prompt; ``preempted``: a sequence was. ``deferred`` of those that wait cannot be admitted whatever room there
        is.
        """
        watch = self._ranks.get(rank)
        if watch is None:
            watch = self._ranks[rank] = _RankWatch()
        watch.preempted |= preempted
        watch.stepped(now_s, _Load(running, waiting, deferred, kv_usage_ratio), served=served, computed=computed)

    def stuck_s(self, now_s: float, config: Recovery) -> float:
        """For how long a rank has stepped without service; 0 where none is stuck, or those have stopped stepping."""
        ranks = self._ranks.values()
        self._worst = max(ranks, key=lambda watch: watch.stuck_s(now_s, config), default=self._worst)
        return self._worst.stuck_s(now_s, config)

    def cause(self, *, compiling: bool) -> StuckCause:
        """Why the rank of the last answer serves nothing. ``compiling``: the engine compiles a grammar."""
        return self._worst.cause(compiling=compiling)


class _Load(NamedTuple):
    """What a rank has after a step."""

    running: int
    waiting: int
    deferred: int
    kv_usage_ratio: float


class _RankWatch:
    """The time for which a rank has stepped without output. ``preempted``: a sequence was, since the last service."""

    def __init__(self) -> None:
        self.preempted = False
        self._unserved_s = self._stepped_s = self._kv_most = 0.0
        self._sequences = self._running = 0
        self._unserved = _Load(0, 0, 0, 0.0)  # at the last step without service

    def stepped(self, now_s: float, load: _Load, *, served: bool, computed: bool) -> None:
        step_s, self._stepped_s = now_s - self._stepped_s, now_s
        had, ran, self._running, kv_ratio = self._sequences, self._running, load.running, load.kv_usage_ratio
        self._sequences = load.running + load.waiting
        if not had:
            self._unserved_s = max(0.0, self._unserved_s - max(0.0, step_s - MOST_STEP_S))
        if not self._sequences or self._kv_most < _KV_FULL or self._sequences < had:  # an abort gives back its blocks
            self._kv_most = min(self._kv_most, kv_ratio)
        grown = kv_ratio > self._kv_most
        served = served or (grown and 0 < load.running == ran and not computed)
        self._kv_most = kv_ratio if served else max(self._kv_most, kv_ratio)
        if served:
            self._unserved_s, self.preempted = 0.0, False
        elif (self._sequences or had) and not (computed and (grown or not self.preempted)):
            self._unserved_s += min(step_s, MOST_STEP_S)
            if self._sequences:
                self._unserved = load._replace(kv_usage_ratio=self._kv_most) if load.running else load

    def stuck_s(self, now_s: float, config: Recovery) -> float:
        """For how long the rank has stepped without service; 0 where it is not stuck, or has stopped stepping."""
        stopped = now_s - self._stepped_s > config.hang_after_s
        return 0.0 if stopped or self._unserved_s < STUCK_RATIO * config.hang_after_s else self._unserved_s

    def cause(self, *, compiling: bool) -> StuckCause:
        running, waiting, deferred, kv_ratio = self._unserved
        all_deferred = running + waiting <= deferred
        if kv_ratio >= _KV_FULL and not all_deferred:
            return StuckCause.KV_FULL
        if running:
            return StuckCause.NO_TOKENS
        if compiling:
            return StuckCause.GRAMMAR
        return StuckCause.DEFERRED if all_deferred else StuckCause.NOT_ADMITTED
