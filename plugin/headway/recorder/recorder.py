"""The ring of recent arrivals: when, which class, which tenant as a number, how many sequences of which lengths.

Every arrival is in it, the refused ones too: another preset might serve them. No preset would serve an invalid request:
it leaves the recording at its end. The length of an answer is known once its request has completed. Nothing else of a
request is kept: no text, no id of a client, no name of a tenant beyond the table that numbers them.

The ring has a bounded number of rows of 36 bytes, so that a server that gets very many requests remembers less than
half an hour of them. An arrival costs about a microsecond; reading copies the rows.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

from headway.recorder.ring import Ring
from headway.recorder.served import ServedLog
from headway.recorder.speed import SpeedLog
from headway_policies import Load, Outcome, Ticket, Usage

KEEP_S = 1800.0
MAX_ROWS = 100_000
#: The table of tenants is begun anew when it has so many; one that comes again then has another number.
MAX_TENANTS = 10_000

#: The column of the sequences, which an invalid request has none of.
_SEQUENCES = 4
_MAX_WIDTH = 2**16 - 1
_MAX_TOKENS = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Recording:
    """The arrivals of the last ``span_s`` seconds up to ``now_s``, by time; a place of each column is a request.

    ``class_index`` counts in ``class_names``; tenant 0 is the one without a name. Lengths are tokens of one sequence.
    ``max_tokens`` is 0 where the client set none, ``output_tokens`` where the length of the answer is not known.
    ``whole``: no arrival of the last half hour had to make room.
    """

    now_s: float
    span_s: float
    whole: bool
    class_names: Sequence[str]
    at_s: Sequence[float]
    class_index: Sequence[int]
    tenant: Sequence[int]
    sequences: Sequence[int]
    prompt_tokens: Sequence[int]
    max_tokens: Sequence[int]
    output_tokens: Sequence[int]

    def __len__(self) -> int:
        return len(self.at_s)


class Recorder:
    """The ring of one gate, with ``served`` for the fate of its requests and ``speed`` for its engine.

    Times are those of the gate's clock, ids those of its tickets: both only grow.
    """

    def __init__(self, *, keep_s: float = KEEP_S, rows: int = MAX_ROWS) -> None:
        self._keep_s = keep_s
        self._ring = Ring("dqHIHIII", rows)
        self._began_s: float | None = None  # everything since then is here
        self._lost_s: float | None = None  # the last arrival that had to make room
        self._classes: dict[str, int] = {}
        self._tenants: dict[str, int] = {"": 0}
        self._numbered = 0
        self.served = ServedLog()
        self.speed = SpeedLog()

    def stepped(self, load: Load, now_s: float) -> None:
        self.speed.stepped(load, now_s)

    def first_token(self, ticket: Ticket, delay_s: float, now_s: float) -> None:
        self.served.first_token(ticket.class_name, delay_s, now_s)

    def ended(self, ticket: Ticket, outcome: Outcome, now_s: float, tokens: int = 0, pace_s: float = 0.0) -> None:
        """Record the end of a request, its tokens and the time between two of them; 0: not known."""
        if outcome is Outcome.REJECTED_INVALID and (place := self._place(ticket.id)) is not None:
            self._ring.columns[_SEQUENCES][place] = 0
        self.served.ended(ticket, outcome, now_s, tokens, pace_s)

    def arrived(self, ticket: Ticket) -> None:
        ring = self._ring
        if self._began_s is None:
            self._began_s = ticket.arrived_s
        if ring.full:
            self._began_s = self._lost_s = ring.columns[0][ring.oldest]
        ring.add(
            ticket.arrived_s,
            ticket.id,
            self._classes.setdefault(ticket.class_name, len(self._classes)),
            self._number(ticket.tenant),
            min(ticket.seats, _MAX_WIDTH),
            min(ticket.prompt_tokens, _MAX_TOKENS),
            min(ticket.max_tokens or 0, _MAX_TOKENS),
            0,
        )

    def completed(self, ticket: Ticket, usage: Usage) -> None:
        """Record the real lengths of a request that ran to its end."""
        place = self._place(ticket.id)
        if place is not None:
            _, _, _, _, sequences, prompts, _, outputs = self._ring.columns
            width = sequences[place]
            if usage.prompt_tokens:
                prompts[place] = min(round(usage.prompt_tokens / width), _MAX_TOKENS)
            outputs[place] = min(max(1, round(usage.output_tokens / width)), _MAX_TOKENS)

    def recording(self, now_s: float, span_s: float | None = None, most: int | None = None) -> Recording:
        """A copy of the arrivals of the last ``span_s`` seconds, half an hour at most; the newest ``most`` of them."""
        most_s = self._keep_s if span_s is None else min(span_s, self._keep_s)
        since_s = now_s - most_s
        before = self._ring.before(since_s)
        skip = before if most is None else max(before, self._ring.count - most)
        columns = self._ring.copy(skip)
        if skip > before and columns[0]:  # the time before the oldest that is copied is not known from this copy
            most_s = min(most_s, now_s - columns[0][0])
        if 0 in (valid := columns[_SEQUENCES]):
            columns = [array(column.typecode, compress(column, valid)) for column in columns]
        at_s, _, class_index, tenant, sequences, prompts, most_tokens, outputs = columns
        return Recording(
            now_s=now_s,
            span_s=0.0 if self._began_s is None else min(most_s, now_s - self._began_s),
            whole=self._lost_s is None or self._lost_s < since_s,
            class_names=tuple(self._classes),
            at_s=at_s,
            class_index=class_index,
            tenant=tenant,
            sequences=sequences,
            prompt_tokens=prompts,
            max_tokens=most_tokens,
            output_tokens=outputs,
        )

    # ------------------------------------------------------------------ inside

    def _number(self, tenant: str) -> int:
        number = self._tenants.get(tenant)
        if number is None:
            if len(self._tenants) > MAX_TENANTS:
                self._tenants = {"": 0}
            self._numbered += 1
            number = self._tenants[tenant] = self._numbered
        return number

    def _place(self, ticket_id: int) -> int | None:
        """The row of a ticket; ids grow from the oldest row on, around the end of the ring."""
        ids, oldest = self._ring.columns[1], self._ring.oldest
        first, end = (oldest, self._ring.count) if oldest == 0 or ticket_id < ids[0] else (0, oldest)
        place = bisect_left(ids, ticket_id, first, end)
        return place if place < end and ids[place] == ticket_id else None
