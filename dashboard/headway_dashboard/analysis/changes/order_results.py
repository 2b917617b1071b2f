"""What an order that stops dispatch, resumes it or warms the engine up has done, in words."""

from __future__ import annotations

from headway.api import AdmissionChanged, WarmupAccepted


def paused(changed: AdmissionChanged) -> str:
    """The answer to a pause."""
    return f"Paused: {_count(changed.running, 'running')} will finish, {_count(changed.waiting, 'waiting')} wait on."


def drained(changed: AdmissionChanged) -> str:
    """The answer to a drain."""
    refused = _count(changed.refused, "waiting")
    end = f"{_count(changed.running, 'running')} will finish; the audit log will say when."
    return f"Draining: {refused} refused. {end}" if changed.running else f"Drained: {refused} refused, none runs."


def resumed(changed: AdmissionChanged) -> str:
    """The answer to a resume; other causes may still hold dispatch."""
    sent = f"Resumed: {_count(changed.dispatched, 'waiting')} dispatched at once, {changed.waiting} still waiting."
    return sent if changed.state == "open" else f"{sent} Dispatch is still held by {', '.join(changed.holds)}."


def warming(accepted: WarmupAccepted) -> str:
    """The answer to a warm-up."""
    beside = f"beside {_count(accepted.running, 'running')}" if accepted.running else "on an idle engine"
    return f"Accepted: batches of at most {accepted.batch_size} {beside}. Its end is in the audit log."


def _count(number: int, what: str) -> str:
    return f"{number} {what} request{'' if number == 1 else 's'}"
