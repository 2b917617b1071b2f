"""A reading of the desk: how it stands at one moment. The reading is made when it is asked for, once for all its
questions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headway_policies.batching import Gathered, SafeWindow, WindowReason
from headway_policies.desk.books.ledger import Ledger
from headway_policies.desk.capacity import Capacity
from headway_policies.desk.forecast import Forecast
from headway_policies.desk.lifecycle import Lifecycle
from headway_policies.desk.mode import Mode
from headway_policies.desk.objectives import Objectives
from headway_policies.desk.scheduler import Scheduler
from headway_policies.limits import Learnt, LimitFailure
from headway_policies.prediction import Accuracy, PrefixCache, scale_ratio
from headway_policies.queueing import SafeOrder


@dataclass(frozen=True, slots=True)
class DeskReading:
    """Numbers of seats unless a unit says otherwise; 0 for a mean or a demand before enough requests have ended."""

    limit_reason: str  #: The reason for the limit, in one word; ``pacing``, ``adapter`` while requests wait for it.
    limit_failure: LimitFailure | None  #: How the limit policy has failed; it may have recovered.
    learnt_limit: Learnt | None  #: The figures of the limit for another process; None where there are none yet.
    proposed_limit: int  #: The limit that the policy would set without the shadow mode.
    whole_limit: int  #: The limit of all instances and all fronts together, whichever share of it is open.
    most_seats: float  #: The most that the limit may come to now; infinite where nothing known bounds it.
    wanted_seats: int  #: The taken seats, and those that the waiting tickets would take if they were free.
    demand_seats: float  #: The seats that arrivals fill on average, refused ones included.
    class_demand_seats: Mapping[str, float]  #: By class: its part of them.
    scale_ratio: float  #: How many times the limit the demand would fill: the signal for a number of replicas.
    reserved_seats: Mapping[str, int]  #: By class: those kept from less urgent classes.
    waiting_seat_s: Mapping[str, float]  #: By class: for how long what waits will occupy seats, in seat seconds.
    waiting_tokens: int  #: Prompt tokens that wait.
    waiting_bytes: int  #: Bytes of prompts that wait.
    oldest_wait_s: Mapping[str, float]  #: By class: the wait of the longest-waiting ticket; 0 where none waits.
    standing_queues: tuple[str, ...]  #: The classes whose queue stands for so long that waits are cut.
    window_s: float  #: How long a batch may gather; 0 under a strategy that gathers none.
    window_reason: WindowReason | None  #: The cause of its length; None under a strategy that uses no window.
    window_failed: str | None  #: How a custom window failed and was disabled.
    order_failed: str | None  #: How a custom order failed and was disabled.
    prefixes: PrefixCache | None  #: The model of the engine's prefix cache; None where the order uses none.
    suspects: int  #: Tickets that still have to run alone after a crash.
    sequence_tokens: float  #: The mean length of the recent sequences, prompt and answer.
    usual_prompt_tokens: float  #: The mean length of the recent prompts.
    accuracy: Mapping[str, Accuracy]  #: How good the predictions of lengths and waits have been.


def read(
    mode: Mode,
    ledger: Ledger,
    capacity: Capacity,
    forecast: Forecast,
    scheduler: Scheduler,
    objectives: Objectives,
    lifecycle: Lifecycle,
    now_s: float,
) -> DeskReading:
    """Read the parts of a desk. Nothing changes."""
    preset, queue, seats, window = mode.preset, scheduler.queue, scheduler.seats, scheduler.window
    gathered = Gathered(0, capacity.limit, now_s, gpu_busy_ratio=capacity.gpu_busy_ratio)
    demand_seats = forecast.demand.total_seats(now_s)
    reserved, orders = seats.reserved(), (lane.order for lane in queue.lanes)
    return DeskReading(
        limit_reason=_waits_for(capacity, scheduler) or capacity.why,
        limit_failure=capacity.failure,
        learnt_limit=capacity.learnt(),
        proposed_limit=capacity.proposed(now_s),
        whole_limit=capacity.whole(now_s),
        most_seats=capacity.most_seats,
        wanted_seats=seats.taken + seats.beside + (0 if mode.blocks else queue.total.seats),
        demand_seats=demand_seats,
        class_demand_seats={name: forecast.demand.seats(name, now_s) for name in preset.classes},
        scale_ratio=scale_ratio(demand_seats, seats.taken, queue.total.seats, capacity.limit),
        reserved_seats={name: reserved.get(name, 0) for name in preset.classes},
        waiting_seat_s={name: load.seats * forecast.demand.residence_s(name) for name, load in queue.by_class.items()},
        waiting_tokens=queue.total.tokens,
        waiting_bytes=queue.total.bytes,
        oldest_wait_s=_oldest_wait_s(mode, ledger, scheduler, now_s),
        standing_queues=tuple(objectives.standing(now_s)),
        window_s=scheduler.window_share(now_s) * window.length_s(gathered, now_s)
        if scheduler.strategy.barrier
        else 0.0,
        window_reason=window.reason(gathered, now_s) if preset.batching.strategy == "dynamic" else None,
        window_failed=window.failed if isinstance(window, SafeWindow) else None,
        order_failed=next((order.failed for order in orders if isinstance(order, SafeOrder) and order.failed), None),
        prefixes=scheduler.prefixes if preset.ordering.by_prefix else None,
        suspects=len(lifecycle.crash_suspects),
        sequence_tokens=forecast.sizes.prompt_tokens + forecast.sizes.output_tokens,
        usual_prompt_tokens=forecast.sizes.prompt_tokens,
        accuracy=forecast.accuracy(),
    )


def _waits_for(capacity: Capacity, scheduler: Scheduler) -> str:
    """The reason of a wait, where that is not the number of seats."""
    total = scheduler.queue.total
    if total.requests and not total.seats:
        return "adapter"
    return "pacing" if capacity.paced and total.requests else ""


def _oldest_wait_s(mode: Mode, ledger: Ledger, scheduler: Scheduler, now_s: float) -> dict[str, float]:
    """The longest wait of each class, also of removed classes whose tickets wait in another class."""
    oldest = dict.fromkeys(ledger.classes, 0.0)
    strangers = any(counts.queued for name, counts in ledger.classes.items() if name not in mode.preset.classes)
    for ticket in scheduler.queue if strangers else scheduler.queue.oldest():
        oldest[ticket.class_name] = max(oldest[ticket.class_name], now_s - ticket.arrived_s)
    return oldest
