"""The engine calls under way: their ids, their permits, and what they have used.

All calls of one request share its permit and its reservation: they hold the seats of the sequences under way, and of
those that have not started. A call that is stopped early occupies its seats until the engine has confirmed its end.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from headway.admission.permit import Permit
from headway.engine import Ended
from headway_policies import Usage

#: A client may choose the id of its request, in a header or in the body. A longer one is cut.
MAX_ID_CHARS = 200


@dataclass(slots=True)
class Call:
    """A call of the engine: its id there, and the sequences it still runs.

    ``accounted`` says that its usage is known, ``shown`` that an output of it was handed on. ``tokens`` is its progress
    at the last poll. ``ends_late`` says that the engine may run a sequence for a moment after its end was reported.
    """

    id: str
    permit: Permit
    seats: int
    ends_late: bool
    requeues: int
    open: bool = True
    accounted: bool = False
    shown: bool = False
    tokens: int = 0

    @property
    def outlived(self) -> bool:
        """Whether its request has been queued again since: the engine died under it, or it made room for another."""
        return self.permit.requeues != self.requeues


class Calls:
    """The calls of one engine. ``stopping`` holds the ids of calls that are over here and maybe not in the engine."""

    def __init__(self) -> None:
        self.stopping: set[str] = set()
        self._by_id: dict[str, Call] = {}
        self._of: dict[int, dict[str, Call]] = {}
        self._unstreamed: dict[str, Call] = {}
        self._suffixes = itertools.count(2)

    def __iter__(self) -> Iterator[Call]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def open(self, permit: Permit, request_id: str, seats: int, *, unstreamed: bool, ends_late: bool) -> Call:
        """Open a call. An id in use, or still stopping, gets a suffix, so that no abort can hit another call."""
        wanted = unique = _bounded(request_id)
        while unique in self._by_id or unique in self.stopping:
            unique = f"{wanted}~{next(self._suffixes)}"  # a counter: a thousand calls of one id find theirs at once
        call = self._by_id[unique] = Call(unique, permit, seats, ends_late, permit.requeues)
        self._of.setdefault(permit.ticket.id, {})[unique] = call
        if unstreamed and permit.watched:
            self._unstreamed[unique] = call
        permit.occupy(permit.in_engine + seats)
        if permit.begun:
            permit.progress()  # a follow-up call: the time between two calls is no stall
        return call

    def close(self, call: Call, *, stopping: bool) -> None:
        """A call is over. While ``stopping`` it keeps its seats until ``stopped``: the engine may still run it."""
        call.open = False
        del self._by_id[call.id]
        self._unstreamed.pop(call.id, None)
        if not stopping:
            self._forget(call)
            return
        self.stopping.add(call.id)
        if call.outlived:  # only its id is left
            self.free(call, call.seats)

    def stopped(self, call: Call) -> None:
        """The call is gone from the engine: free the seats that it still has."""
        self.stopping.remove(call.id)
        self._forget(call)

    def _forget(self, call: Call) -> None:
        ticket_id = call.permit.ticket.id
        siblings = self._of[ticket_id]
        del siblings[call.id]
        if not siblings:
            del self._of[ticket_id]
        self.free(call, call.seats)

    def of(self, permit: Permit) -> list[Call]:
        """The calls of one request, also those that are stopping."""
        return list(self._of.get(permit.ticket.id, {}).values())

    def unstreamed(self) -> list[Call]:
        """The calls without streamed output whose progress matters."""
        if self._unstreamed:
            self._unstreamed = {id_: call for id_, call in self._unstreamed.items() if call.permit.watched}
        return list(self._unstreamed.values())

    def sequence_ended(self, ended: Ended) -> Call | None:
        """The engine finished one sequence of a call. Returns the call, where it is known and had a seat."""
        call = self._by_id.get(ended.request_id)
        if call is None or call.seats <= 0:
            return None
        call.accounted = True
        call.permit.use(ended.prompt_tokens, ended.output_tokens, ended.finish_reason)
        self.free(call, 1)
        return call

    def account(self, call: Call, usage: Usage | None) -> None:
        """Add the usage of a call of which the engine has reported nothing; None when it is not known."""
        if usage is not None:
            call.accounted = True
            call.permit.use(usage.prompt_tokens, usage.output_tokens)

    def free(self, call: Call, sequences: int) -> None:
        """This many sequences of a call are over."""
        call.seats -= sequences
        if not call.outlived:
            call.permit.ended_sequences += sequences
            call.permit.occupy(call.permit.in_engine - sequences)


def _bounded(request_id: str) -> str:
    """The id; one that is too long or not printable is cut to its printable beginning and a digest."""
    if len(request_id) <= MAX_ID_CHARS and request_id.isprintable():
        return request_id
    digest = hashlib.sha256(request_id.encode(errors="surrogatepass")).hexdigest()[:16]
    begin = "".join(letter for letter in request_id[: MAX_ID_CHARS - len(digest) - 1] if letter.isprintable())
    return f"{begin}~{digest}"
