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

#: The most calls of which a report may still come after they were counted without it.
_MOST_OVERDUE = 1000
#: A client may choose the id of its request, in a header or in the body. A longer one is cut.
MAX_ID_CHARS = 200


@dataclass(slots=True)
class Call:
    """A call of the engine: its id there, and the sequences it still runs.

    ``accounted`` says that its usage is known, ``shown`` that an output of it was handed on, ``counted`` that the
    engine has reported a sequence of it; ``used`` is its usage by its last output, ``tokens`` its progress at the last
    poll. ``ends_late`` says that the engine may run a sequence for a moment after its end was reported, ``refused``
    that a paused engine has taken nothing of it: its request keeps the seats.
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
    counted: bool = False
    refused: bool = False
    used: Usage | None = None

    @property
    def outlived(self) -> bool:
        """Whether its request has been queued again since: its engine died, or another request took its seat."""
        return self.permit.requeues != self.requeues


class Calls:
    """The calls of one engine. ``stopping`` holds those that are over here and maybe not in the engine, by id.

    A dead engine confirms nothing, so that a call may be counted by its last output before its report is read. Such a
    report is known by the id of its call, and is not counted a second time.
    """

    def __init__(self) -> None:
        self.stopping: dict[str, Call] = {}
        self._by_id: dict[str, Call] = {}
        self._of: dict[int, dict[str, Call]] = {}
        self._unstreamed: dict[str, Call] = {}
        self._overdue: dict[str, None] = {}  # counted without their report, the oldest first
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
        self._overdue.pop(unique, None)
        call = self._by_id[unique] = Call(unique, permit, seats, ends_late, permit.requeues)
        self._of.setdefault(permit.ticket.id, {})[unique] = call
        if permit.account is not None:
            permit.account.calls += 1
        if unstreamed and permit.watched:
            self._unstreamed[unique] = call
        permit.occupy(permit.in_engine + seats)
        if permit.begun:
            permit.progress()  # a follow-up call: the time between two calls is no stall
        return call

    def close(self, call: Call, *, stopping: bool, reported: bool = True) -> None:
        """A call is over. While ``stopping`` it keeps its seats until ``stopped``: the engine may still run it.

        Where its end is not ``reported`` yet, its id is kept until ``stopped`` as well.
        """
        call.open = False
        del self._by_id[call.id]
        self._unstreamed.pop(call.id, None)
        if not stopping:
            self._forget(call)
            if reported:
                self._settle(call)
                return
        self.stopping[call.id] = call
        if stopping and call.outlived:  # only its id is left
            self.free(call, call.seats)

    def stopped(self, call: Call) -> None:
        """The call is gone from the engine, and from its reports: free the seats that it still has."""
        del self.stopping[call.id]
        if call.id in self._of.get(call.permit.ticket.id, {}):
            self._forget(call)
        if call.used is not None and not call.counted:
            self._overdue[call.id] = None
            if len(self._overdue) > _MOST_OVERDUE:
                del self._overdue[next(iter(self._overdue))]
        self._settle(call)

    def _settle(self, call: Call) -> None:
        """Nothing more will be reported of a call."""
        permit = call.permit
        if permit.account is not None:
            if not call.counted and call.used is not None:
                permit.account.add_usage(call.used)
            permit.account.calls -= 1
            permit.close_account()

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

    def count(self, ended: Ended) -> bool:
        """Add a sequence that has ended, or is dropped, to the account of its request; whether it is of any."""
        call = self._by_id.get(ended.request_id) or self.stopping.get(ended.request_id)
        if call is None:
            return ended.request_id in self._overdue
        call.counted = True
        if call.permit.account is not None:
            call.permit.account.add(ended)
        return True

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
            call.accounted, call.used = True, usage
            call.permit.use(usage.prompt_tokens, usage.output_tokens)

    def free(self, call: Call, sequences: int) -> None:
        """This many sequences of a call are over."""
        call.seats -= sequences
        if not call.outlived:
            call.permit.ended_sequences += 0 if call.refused else sequences
            call.permit.occupy(call.permit.in_engine - sequences)


def _bounded(request_id: str) -> str:
    """The id; an id that is too long or not printable becomes its printable beginning and a digest."""
    if len(request_id) <= MAX_ID_CHARS and request_id.isprintable():
        return request_id
    digest = hashlib.sha256(request_id.encode(errors="surrogatepass")).hexdigest()[:16]
    begin = "".join(letter for letter in request_id[: MAX_ID_CHARS - len(digest) - 1] if letter.isprintable())
    return f"{begin}~{digest}"
