"""The stuck watch: detects an engine that goes on stepping and serves nothing.

To the hang watchdog such an engine is well: it steps, and answers. This watch adds up the time in which it steps, has
sequences, and shows no service:

    a step serves      when a sequence has a token or ends in it, or a prompt is computed to its end
                       when the KV cache in use grows while as many sequences run as before: a chunk of a long prompt
                       was computed. Where the cache was full since the last service, only more than that counts:
                       sequences that preempt one another compute the same chunks again
    a step counts      for as long as it took, at most ``MOST_STEP_S``: a long step, a compilation and a stalled event
                       loop are the hang watchdog's
    an empty engine   begins anew, unless it was left without service for ``_SHORT_S``: a client that sends one request
                       after another, and gives up each before this watch could name the engine, hides nothing
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
preempted for others as long as these come, and nothing that the engine reports tells that from a fault. A model without
full attention holds as many blocks for a long prompt as for a short one: a prompt that takes so long, alone in the
engine, counts as no service.
"""

from __future__ import annotations

from enum import StrEnum

from headway_policies.engine.restart_policy import Recovery

STUCK_RATIO = 0.75
MOST_STEP_S = 1.0
_KV_FULL = 0.9
_SHORT_S = 2.0


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
        rank: int = 0,
    ) -> None:
        """A rank made a step. ``served``: a token, an end of a sequence or of a prompt. ``deferred`` of those that wait
        cannot be admitted whatever room there is.
        """
        watch = self._ranks.get(rank)
        if watch is None:
            watch = self._ranks[rank] = _RankWatch()
        watch.stepped(now_s, served, running, waiting, deferred, kv_usage_ratio)

    def stuck_s(self, now_s: float, config: Recovery) -> float:
        """For how long a rank has stepped without service; 0 where none is stuck, or those have stopped stepping."""
        ranks = self._ranks.values()
        self._worst = max(ranks, key=lambda watch: watch.stuck_s(now_s, config), default=self._worst)
        return self._worst.stuck_s(now_s, config)

    def cause(self, *, compiling: bool) -> StuckCause:
        """Why the rank of the last answer serves nothing. ``compiling``: the engine compiles a grammar."""
        return self._worst.cause(compiling=compiling)


class _RankWatch:
    """The time for which a rank has stepped without output, with its last figures."""

    def __init__(self) -> None:
        self._unserved_s = self._stepped_s = self._kv_ratio = self._kv_most = 0.0
        self._left_s = 0.0  # of the time without service, at the last end of all sequences
        self._sequences = self._running = self._deferred = 0

    def stepped(
        self, now_s: float, served: bool, running: int, waiting: int, deferred: int, kv_usage_ratio: float
    ) -> None:
        step_s, self._stepped_s = min(now_s - self._stepped_s, MOST_STEP_S), now_s
        had, ran, self._sequences, self._running = self._sequences, self._running, running + waiting, running
        self._deferred, self._kv_ratio = deferred, kv_usage_ratio
        if self._kv_most < _KV_FULL or self._sequences < had:  # what was aborted has given back its blocks
            self._kv_most = min(self._kv_most, kv_usage_ratio)
        chunk = 0 < running == ran and kv_usage_ratio > self._kv_most
        if served or chunk or (not self._sequences and self._unserved_s < self._left_s + _SHORT_S):
            self._unserved_s = self._left_s = 0.0
            self._kv_most = kv_usage_ratio
        elif not self._sequences:
            self._left_s, self._kv_most = self._unserved_s, kv_usage_ratio
        else:
            self._unserved_s += step_s
            self._kv_most = max(self._kv_most, kv_usage_ratio)

    def stuck_s(self, now_s: float, config: Recovery) -> float:
        """For how long the rank has stepped without service; 0 where it is not stuck, or has stopped stepping."""
        stopped = now_s - self._stepped_s > config.hang_after_s
        return 0.0 if stopped or self._unserved_s < STUCK_RATIO * config.hang_after_s else self._unserved_s

    def cause(self, *, compiling: bool) -> StuckCause:
        deferred = self._sequences <= self._deferred
        if (self._kv_most if self._running else self._kv_ratio) >= _KV_FULL and not deferred:
            return StuckCause.KV_FULL
        if self._running:
            return StuckCause.NO_TOKENS
        if compiling:
            return StuckCause.GRAMMAR
        return StuckCause.DEFERRED if deferred else StuckCause.NOT_ADMITTED
