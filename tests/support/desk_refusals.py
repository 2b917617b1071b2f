"""The causes of refusals and aborts, as the oracle of the desk knows them: each is given for a cause that exists."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from headway_policies import Reason, Ticket

if TYPE_CHECKING:
    from desk_oracle import Oracle

EPSILON_S = 1e-9


def check_refusal(oracle: Oracle, ticket_id: int, reason: Reason, now_s: float) -> None:
    """A refusal is given for a cause that exists."""
    rules, ticket, queue = oracle.rules, oracle.waiting.pop(ticket_id), oracle.desk.preset.queue
    match reason:
        case Reason.EVICTED:
            arrival = oracle.arrival
            assert queue.evict
            assert arrival is not None
            assert rules.urgency(ticket) < rules.urgency(arrival), "evicted for no more urgent ticket"
            others = [one for one in oracle.waiting.values() if one is not arrival]
            assert all(rules.urgency(ticket) <= rules.urgency(one) for one in others), "a worse one stays"
        case Reason.QUEUE_FULL | Reason.CLASS_QUEUE_FULL if ticket is not oracle.arrival:
            _check_gave_place(oracle, ticket, reason)
        case Reason.QUEUE_FULL | Reason.CLASS_QUEUE_FULL:
            full = "" if reason is Reason.QUEUE_FULL else ticket.class_name
            assert rules.over(ticket, full), "refused although there is room"
            assert not _goes_at_once(oracle, ticket), "refused although it need not wait"
        case Reason.NO_FREE_SEAT:
            assert not ticket.may_wait
            assert not _goes_at_once(oracle, ticket), "refused although a seat is free"
        case Reason.DEADLINE_INFEASIBLE:
            assert queue.refuse_infeasible
            assert oracle.queue_due_s(ticket_id) < inf
        case Reason.DEADLINE_UNREACHABLE:
            assert queue.shed_unreachable
            assert min(oracle.run_due_s(ticket_id).values()) < inf
        case Reason.OBJECTIVE_INFEASIBLE:
            assert oracle.objectives.stands(ticket, now_s) or oracle.objectives.stood_lately(ticket, now_s), (
                "a burst was refused"
            )
            assert ticket is oracle.arrival, "refused as if it arrived"
            assert not _goes_at_once(oracle, ticket), "refused although it need not wait"
        case Reason.OBJECTIVE_UNREACHABLE:
            assert oracle.objectives.stands(ticket, now_s) or oracle.objectives.stood_lately(ticket, now_s), (
                "a burst was refused"
            )
            waited_s = now_s - ticket.arrived_s
            assert waited_s > oracle.objectives.slo_s(ticket) or oracle.objectives.stepped_s > -inf, (
                "its objective has not passed"
            )
        case Reason.DRAINING | Reason.ENGINE_LOST | Reason.OUT_OF_MEMORY:
            assert not oracle.is_open()
    oracle.waiting[ticket_id] = ticket


def _check_gave_place(oracle: Oracle, ticket: Ticket, reason: Reason) -> None:
    """A waiting ticket gave its place to an arrival: the newest of the tenant with the longest queue in that class, of
    those that were never dispatched, where that of the arrival is shorter, and there was no other place. All that give
    theirs to one arrival are of one tenant.
    """
    rules, preset, arrival = oracle.rules, oracle.desk.preset, oracle.arrival
    assert preset.queue.evict
    assert preset.ordering.inside in ("fair", "prefix"), "tenants have no rights here"
    assert arrival is not None, "gave its place to none"
    assert arrival.may_wait, "gave its place to one that does not take it"
    assert rules.line(ticket) == arrival.class_name, "gave its place to one of another class"
    waiting = {one.id: one for one in (*oracle.waiting.values(), ticket) if one is not arrival}
    rules.waiting, after = waiting, rules.waiting
    assert rules.over(arrival, "" if reason is Reason.QUEUE_FULL else arrival.class_name), "there was room"
    rules.waiting = after
    ran = oracle.recalled | set(oracle.was_running_at)
    mine = [one for one in waiting.values() if rules.line(one) == arrival.class_name and one.id not in ran]
    by_tenant = {one.tenant: [other for other in mine if other.tenant == one.tenant] for one in mine}
    length = {tenant: _length(oracle, theirs, theirs[-1].share) for tenant, theirs in by_tenant.items()}
    with_it = _length(oracle, [*by_tenant.get(arrival.tenant, ()), arrival], arrival.share)
    assert ticket in mine, "it had been dispatched before"
    if oracle.giving != (arrival.id, ticket.tenant):
        assert length[ticket.tenant] == max(length.values()), "another tenant has more waiting"
    oracle.giving = (arrival.id, ticket.tenant)
    assert length[ticket.tenant] > with_it, "its tenant has no more waiting"
    assert ticket.id == max(one.id for one in mine if one.tenant == ticket.tenant), "a newer one of its tenant stays"


def _length(oracle: Oracle, tickets: list[Ticket], share: float) -> float:
    """The largest part that these tickets of one class have of any bound, in places, for a share."""
    preset, line = oracle.desk.preset, oracle.rules.line(tickets[-1])
    bounds = (preset.classes[line], preset.queue)
    places = min(one.max_waiting for one in bounds)
    parts = [float(len(tickets))]
    for unit in ("tokens", "bytes"):
        most = [getattr(one, f"max_waiting_{unit}") for one in bounds]
        if any(one is not None for one in most):
            used = sum(getattr(one, f"prompt_{unit}") for one in tickets)
            parts.append(used * (places / max(1, min(one for one in most if one is not None))))
    return max(parts) / share


def _goes_at_once(oracle: Oracle, arrival: Ticket) -> bool:
    """Whether it fits and no ticket is before it, now that it is out of the queue."""
    rules = oracle.rules
    free = oracle.is_open() and not oracle.suspects and not rules.gathers and not oracle.desk._capacity.paced
    return free and rules.fits(arrival) and not rules.may_be_next()


def check_abort(oracle: Oracle, ticket_id: int, reason: Reason, now_s: float) -> None:
    """A running ticket is given up when its time is over, or with its engine."""
    assert ticket_id in oracle.running, "aborted what was not running"
    due_s = oracle.run_due_s(ticket_id).get(reason, inf)
    if reason is Reason.POISON:
        assert oracle.was_running_at[ticket_id] == oracle.crashes - 1, "given up after one crash"
        assert oracle.to_blame in (None, ticket_id), "given up for what another one did"
    lost = reason in (Reason.ENGINE_LOST, Reason.DRAINING, Reason.POISON) and not oracle.desk.mode.engine_up
    assert lost or now_s >= due_s - EPSILON_S, "aborted too early"
