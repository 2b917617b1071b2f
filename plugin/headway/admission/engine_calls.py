"""Which engine calls are under way, whose are they, and what have they used?

All calls of one request share its permit and its reservation: they hold the seats of the sequences under way, and of
those still to come. A call that ends before its time holds its seats until the engine has confirmed that it is gone.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from headway.admission.permit import Permit
from headway.engine import Ended
from headway_policies import Usage

#: A client may choose the id of its request, in a header or in the body. Of a longer one the beginning is kept.
MAX_ID_CHARS = 200


@dataclass(slots=True)
class Call:
    """One call of the engine: its id there, and the sequences it still runs.

    ``accounted`` says that its usage is known, ``shown`` that somebody has seen an output of it. ``tokens`` is how far
    it was when last looked at. ``ends_late`` says that the engine may run a sequence for a moment after its end was
    reported.
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
        """Whether the engine died under it, and its request has had, or waits for, another turn."""
        return self.permit.requeues != self.requeues


class Calls:
    """The calls of one engine. ``stopping`` holds the ids of calls that are over here and maybe not yet there."""

    def __init__(self) -> None:
        self.stopping: set[str] = set()
        self._by_id: dict[str, Call] = {}
        self._of: dict[int, dict[str, Call]] = {}
        self._silent: dict[str, Call] = {}
        self._suffixes = itertools.count(2)

    def __iter__(self) -> Iterator[Call]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def open(self, permit: Permit, request_id: str, seats: int, *, silent: bool, ends_late: bool) -> Call:
        """Register a call. An id in use, or on its way out, gets a suffix, so that no abort can hit a stranger."""
        wanted = unique = _bounded(request_id)
        while unique in self._by_id or unique in self.stopping:
            unique = f"{wanted}~{next(self._suffixes)}"  # never the same twice: a thousand of one id are found at once
        call = self._by_id[unique] = Call(unique, permit, seats, ends_late, permit.requeues)
        self._of.setdefault(permit.ticket.id, {})[unique] = call
        if silent and permit.watched:
            self._silent[unique] = call
        permit.occupy(permit.in_engine + seats)
        if permit.begun:
            permit.progress()  # a follow-up call: the time between two calls was no stall
        return call

    def close(self, call: Call, *, stopping: bool) -> None:
        """A call is over. One that is ``stopping`` keeps its seats until ``stopped``: the engine may still run it."""
        call.open = False
        del self._by_id[call.id]
        self._silent.pop(call.id, None)
        if not stopping:
            self._forget(call)
            return
        self.stopping.add(call.id)
        if call.outlived:  # nothing of it is left but its id
            self.free(call, call.seats)

    def stopped(self, call: Call) -> None:
        """The engine has nothing of a call any more; the seats it still has are free."""
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

    def silent(self) -> list[Call]:
        """The calls of which it matters how far they are, though they show nothing until their end."""
        if self._silent:
            self._silent = {id_: call for id_, call in self._silent.items() if call.permit.watched}
        return list(self._silent.values())

    def sequence_ended(self, ended: Ended) -> Call | None:
        """The engine finished one sequence of a call; the call, where it is known and had one."""
        call = self._by_id.get(ended.request_id)
        if call is None or call.seats <= 0:
            return None
        call.accounted = True
        call.permit.use(ended.prompt_tokens, ended.output_tokens)
        self.free(call, 1)
        return call

    def account(self, call: Call, usage: Usage | None) -> None:
        """What a call used of which the engine has reported nothing; None when nobody knows."""
        if usage is not None:
            call.accounted = True
            call.permit.use(usage.prompt_tokens, usage.output_tokens)

    def free(self, call: Call, sequences: int) -> None:
        """So many sequences of a call are over."""
        call.seats -= sequences
        if not call.outlived:
            call.permit.ended_sequences += sequences
            call.permit.occupy(call.permit.in_engine - sequences)


def _bounded(request_id: str) -> str:
    """The id itself; of one that is too long, or that would break a line of the log, what is harmless and a digest."""
    if len(request_id) <= MAX_ID_CHARS and request_id.isprintable():
        return request_id
    digest = hashlib.sha256(request_id.encode(errors="surrogatepass")).hexdigest()[:16]
    begin = "".join(one for one in request_id[: MAX_ID_CHARS - len(digest) - 1] if one.isprintable())
    return f"{begin}~{digest}"
