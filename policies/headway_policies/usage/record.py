"""The record of one finished request: its tenant, its outcome and its use of the engine."""

from __future__ import annotations

from typing import Final, NamedTuple

#: The tenant of the server's own calls of the engine: warm-ups, and all others that belong to no request.
SERVER: Final = "(server)"


class Group(NamedTuple):
    """The names by which requests are summed up. ``key`` is that of a key, "" where there is none.

    ``outcome`` is an ``Outcome``, ``reason`` the ``Reason`` of a refusal or "".
    """

    tenant: str
    key: str
    class_name: str
    model: str
    adapter: str
    outcome: str
    reason: str


class Figures(NamedTuple):
    """The figures of one or more requests.

    ``cached_tokens`` are those of ``prompt_tokens`` that the engine had in its prefix cache. ``seat_s`` is the time of
    all sequences on their seats, ``kv_token_s`` that of all tokens in the KV cache (``kv_token_s``), ``queue_s`` the
    time without a seat.
    """

    requests: int = 0
    refused: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    seat_s: float = 0.0
    kv_token_s: float = 0.0
    queue_s: float = 0.0

    def plus(self, other: Figures) -> Figures:
        """The sum, figure by figure."""
        requests, refused, prompt_tokens, cached_tokens, output_tokens, seat_s, kv_token_s, queue_s = other
        return Figures(
            self.requests + requests,
            self.refused + refused,
            self.prompt_tokens + prompt_tokens,
            self.cached_tokens + cached_tokens,
            self.output_tokens + output_tokens,
            self.seat_s + seat_s,
            self.kv_token_s + kv_token_s,
            self.queue_s + queue_s,
        )


class UsageRecord(NamedTuple):
    """A finished request, which ended at ``ended_s``, in seconds since 1970.

    Its ``figures`` are of one request, and of one that was refused where its group has a reason. The tokens are those
    that the engine counted for it, over all its sequences and tries.
    """

    ended_s: float
    group: Group
    figures: Figures


def kv_token_s(seat_s: float, sequences: int, prefill_s: float | None, prompt_tokens: int, output_tokens: int) -> float:
    """The KV cache that a request used: tokens times seconds, an approximation from what is known at its end.

    The tokens are summed over the sequences, which are taken to be equally long. Until its first token a sequence holds
    half of its prompt on the mean, then all of it and half of its answer. ``prefill_s`` is the time from the seat to
    the first token, None where there was none. A prefix that sequences share counts for each of them.
    """
    each_s = seat_s / max(1, sequences)
    before_s = each_s if prefill_s is None else min(max(0.0, prefill_s), each_s)
    return before_s * prompt_tokens / 2 + (each_s - before_s) * (prompt_tokens + output_tokens / 2)
