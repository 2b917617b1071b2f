"""A closed loop in virtual time: a desk, a server with seats, and clients that react to their answers.

All events and effects of the desk go through an event list; nothing here sleeps, and only the desk decides which
request is dispatched. Each request is one record, written by the loop and never by the desk.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from headway_policies import Abort, Desk, Dispatch, Effect, Ending, Expire, Preset, Reject, Ticket, Usage, WakeAt


@dataclass
class Record:
    """The course of one request, as its client and the server saw it."""

    ticket: Ticket
    output_tokens: int
    dispatched_s: float | None = None
    ended_s: float | None = None
    how: str = ""
    retry_after_s: int = 0

    @property
    def wait_s(self) -> float:
        """From the arrival to the dispatch."""
        assert self.dispatched_s is not None
        return self.dispatched_s - self.ticket.arrived_s

    @property
    def took_s(self) -> float:
        """From the arrival to the end."""
        assert self.ended_s is not None
        return self.ended_s - self.ticket.arrived_s

    @property
    def completed(self) -> bool:
        """Whether it ran to its end."""
        return self.how == "completed"


OnEnd = Callable[[Record], None]


class ClosedLoop:
    """``service_s`` says how long a request holds its seats; its first token comes after a tenth of that."""

    def __init__(self, preset: Preset, service_s: Callable[[Record], float], most_adapters: int | None = None) -> None:
        self.desk = Desk(preset, most_adapters=most_adapters)
        self.now_s = 0.0
        self.records: list[Record] = []
        self._service_s = service_s
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._callbacks: dict[int, OnEnd] = {}

    def at(self, at_s: float, event: Callable[[], None]) -> None:
        """Schedule an event."""
        heapq.heappush(self._events, (at_s, next(self._order), event))

    def ask(self, class_name: str, on_end: OnEnd | None = None, *, output_tokens: int = 100, **more: object) -> None:
        """Send a request now; ``on_end`` is called at its end, and may send another."""
        ticket = Ticket(len(self.records), class_name, self.now_s, **more)  # type: ignore[arg-type]  # fields of it
        self.records.append(Record(ticket, output_tokens))
        if on_end is not None:
            self._callbacks[ticket.id] = on_end
        self._follow(self.desk.arrive(ticket, self.now_s))

    def run(self, until_s: float) -> None:
        """Let time pass."""
        events = self._events
        while events and events[0][0] <= until_s:
            self.now_s, _, event = heapq.heappop(events)
            event()
        self.now_s = until_s

    def _follow(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Dispatch(ticket_id):
                    self._start(self.records[ticket_id])
                case Reject(ticket_id, reason, retry_after_s) | Expire(ticket_id, reason, retry_after_s):
                    self.records[ticket_id].retry_after_s = retry_after_s
                    self._ended(self.records[ticket_id], reason.value)
                case Abort(ticket_id, reason):
                    self._ended(self.records[ticket_id], reason.value)
                    self.at(self.now_s, lambda one=ticket_id: self._leave(self.records[one], Ending.CANCELLED))
                case WakeAt(at_s):
                    self.at(at_s, lambda: self._follow(self.desk.tick(self.now_s)))

    def _start(self, record: Record) -> None:
        record.dispatched_s = self.now_s
        service_s = self._service_s(record)
        ticket_id = record.ticket.id
        self.at(self.now_s + service_s / 10, lambda: self._follow(self.desk.first_token(ticket_id, self.now_s)))
        self.at(self.now_s + service_s, lambda: self._leave(record, Ending.COMPLETED))

    def _leave(self, record: Record, ending: Ending) -> None:
        usage = Usage(record.ticket.prompt_tokens, record.output_tokens)
        if not record.how:
            self._ended(record, ending.value)
        self._follow(self.desk.leave(record.ticket.id, ending, self.now_s, usage))

    def _ended(self, record: Record, how: str) -> None:
        record.how, record.ended_s = how, self.now_s
        on_end = self._callbacks.pop(record.ticket.id, None)
        if on_end is not None:
            self.at(self.now_s, lambda: on_end(record))


def percentile(values: list[float], share: float) -> float:
    """The value that so large a share does not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
