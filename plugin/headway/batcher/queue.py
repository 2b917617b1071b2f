"""A bounded priority queue alone, for programs that make their batches themselves."""

from __future__ import annotations

import itertools
import operator
import threading
from dataclasses import dataclass
from typing import Generic

from typing_extensions import TypedDict  # pydantic and FastAPI accept typing's only from Python 3.12 on

from headway.batcher.arguments import whole_number
from headway.batcher.function import T
from headway.batcher.request import InferenceRequest
from headway.batcher.settings import class_name
from headway.errors import UnknownClassError
from headway_policies import PriorityClass, Ticket
from headway_policies.queueing import Lane, OrderSettings, QueueSettings, WaitQueue, make_order

_MAX_WAITING = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class PrioritizedRequest(Generic[T]):
    """A request with its priority, for ``enqueue``; the queue gives back the request alone."""

    request: T
    priority: int | str


class QueueStats(TypedDict):
    """The figures of a queue. ``queue_sizes`` counts waiting requests, by priority from 0 up.

    ``queue_size`` is their sum, and ``total_queued`` the same; ``dropped`` requests found no room, or were evicted.
    """

    queue_size: int
    total_queued: int
    max_size: int
    queue_sizes: list[int]
    enqueued: int
    dequeued: int
    dropped: int


class PriorityRequestQueue(Generic[T]):
    """A bounded queue: the most urgent first, and inside one priority first come, first served.

    Priorities count from 0 up, larger is more urgent, as in ``Batcher``; three have the names batch, normal, realtime.
    A request without a priority is of ``default_class``, else normal (the middle one, of an even number the lower of
    two); one of an unknown priority is of it too, and an error without it. In a full queue a new request evicts the
    newest of the least urgent ones, if it is more urgent than that. Every operation is O(log n), and any thread may
    call it. Strict priority has no bound on the wait of those below: ``Batcher`` has one.
    """

    def __init__(
        self, max_size: int = 10_000, priority_classes: int = 3, *, default_class: int | str | None = None
    ) -> None:
        whole_number("max_size", max_size, 1, _MAX_WAITING)
        count = whole_number("priority_classes", priority_classes, 1, 8)
        self._default = None if default_class is None else class_name(default_class, count)
        classes = {
            class_name(priority, count): PriorityClass(priority=priority, max_waiting=_MAX_WAITING)
            for priority in range(count)
        }
        lane = Lane(make_order(OrderSettings(between="strict", inside="fifo"), classes))
        self._room = WaitQueue(classes, QueueSettings(max_waiting=max_size), [lane])
        self._waiting: dict[int, T] = {}
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._enqueued = self._dequeued = self._dropped = 0

    def enqueue(self, request: T | PrioritizedRequest[T], priority: int | str | None = None) -> bool:
        """Put a request in; False when the queue has no room. Raises UnknownClassError for another priority.

        A ``PrioritizedRequest`` and an ``InferenceRequest`` have their own priority, which counts unless one is given.
        """
        if priority is None and isinstance(request, PrioritizedRequest | InferenceRequest):
            priority = request.priority
        item = request.request if isinstance(request, PrioritizedRequest) else request
        name = self._class_of(priority)
        with self._lock:
            ticket = Ticket(next(self._ids), name, 0.0)
            if self._room.refusal(ticket) is not None:
                self._dropped += 1
                worst = self._room.worst_below(name)
                if worst is None:
                    return False
                self._take(worst)
            self._enqueued += 1
            self._waiting[ticket.id] = item
            self._room.push(ticket, name, self._room.lanes[0], 1, 0.0)
        return True

    def dequeue(self) -> T | None:
        """Take out the next request; None when the queue is empty."""
        return next(iter(self.dequeue_batch(1)), None)

    def dequeue_batch(self, most: int) -> list[T]:
        """Take out the waiting requests in order, ``most`` at the most. Raises TypeError for no whole number."""
        with self._lock:
            count = max(0, min(operator.index(most), len(self._waiting)))
            self._dequeued += count
            return [self._take(self._head()) for _ in range(count)]

    @property
    def size(self) -> int:
        """The number of waiting requests."""
        return len(self._waiting)

    @property
    def dropped(self) -> int:
        """The number of requests that found no room, or were evicted."""
        return self._dropped

    def __len__(self) -> int:
        return self.size

    def stats(self) -> QueueStats:
        """The figures so far."""
        with self._lock:
            return QueueStats(
                queue_size=self.size,
                total_queued=self.size,
                max_size=self._room.queue.max_waiting,
                queue_sizes=[load.requests for load in self._room.by_class.values()],
                enqueued=self._enqueued,
                dequeued=self._dequeued,
                dropped=self._dropped,
            )

    def _class_of(self, priority: int | str | None) -> str:
        if priority is None:
            return self._default or class_name((len(self._room.classes) - 1) // 2, len(self._room.classes))
        try:
            return class_name(priority, len(self._room.classes))
        except UnknownClassError:
            if self._default is None:
                raise
            return self._default

    def _head(self) -> Ticket:
        head = self._room.lanes[0].order.head(0.0)
        assert head is not None
        return head

    def _take(self, ticket: Ticket) -> T:
        self._room.remove(ticket, ticket.class_name, self._room.lanes[0], 0.0)
        return self._waiting.pop(ticket.id)
