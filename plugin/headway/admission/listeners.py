"""The listeners of a gate: the meter, the traffic log and the accounting, which receive the events of each request.

An error in a listener does not affect the request: it is counted and logged.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, ParamSpec, Protocol

from headway.admission.permit import Permit
from headway.engine import Ended
from headway_policies import Desk, Load, Outcome, Ticket, Usage
from headway_policies.usage import SERVER, Figures, Group, UsageRecord, kv_token_s

P = ParamSpec("P")


class EndedRequest(NamedTuple):
    """The end of one request and its times in seconds; None for a stage that was not reached, or is not known.

    ``ttft_slo_s`` and ``inter_token_slo_s`` are the objectives of its class for a prompt of its length, on the engine
    as it was when the request ended: the numbers that the metrics show then. None where the class states none, or one
    that is relative to an engine that is not known yet. ``first_token_s`` and ``total_s`` count from its arrival,
    ``decode_s`` from its first token to its last one in the engine. ``pace_s`` is the mean time between two of its
    tokens, 0 where it is not known. ``finish_reasons``: the engine's own, one for each sequence that it reported.
    """

    class_name: str
    outcome: Outcome
    ttft_slo_s: float | None
    inter_token_slo_s: float | None
    dispatched: bool
    first_token_s: float | None
    decode_s: float | None
    total_s: float
    pace_s: float
    usage: Usage | None
    finish_reasons: tuple[str, ...] = ()


class Meter(Protocol):
    """Receives durations from the gate; counts are read from the desk's ledger."""

    def waited(self, class_name: str, wait_s: float, batches: int) -> None:
        """A ticket was dispatched after this wait, in which ``batches`` batches left before its own."""
        ...

    def first_token(self, class_name: str, delay_s: float, prefill_s: float) -> None:
        """A ticket's first token came this long after its arrival, and after its dispatch."""
        ...

    def ended(self, ended: EndedRequest) -> None:
        """A request ended, with any outcome."""
        ...


class TrafficLog(Protocol):
    """Receives each request at its arrival, at its first token, and once or twice at its end; and each step."""

    def arrived(self, ticket: Ticket) -> None:
        """A request arrived."""
        ...

    def completed(self, ticket: Ticket, usage: Usage) -> None:
        """A request was completed; ``usage`` is summed over its sequences."""
        ...

    def first_token(self, ticket: Ticket, delay_s: float, now_s: float) -> None:
        """The first token of a request came ``delay_s`` after its arrival."""
        ...

    def ended(self, ticket: Ticket, outcome: Outcome, now_s: float, tokens: int = 0, pace_s: float = 0.0) -> None:
        """A request ended, with any outcome; ``pace_s`` is its mean time between tokens, 0: not known."""
        ...

    def stepped(self, load: Load, now_s: float) -> None:
        """The engine made a step."""
        ...


class UsageSink(Protocol):
    """Receives the record of each request, once nothing more can be added to it."""

    def add(self, record: UsageRecord) -> None:
        """Keep a record."""
        ...


class Listeners:
    """The meter, the traffic log and the accounting of a gate; each may be missing.

    ``usage`` and ``exported``, which receives each end, are set before the first request. ``failed`` is called, while
    an error is being handled, with the name of the function that raised it.
    """

    def __init__(
        self, desk: Desk, meter: Meter | None, traffic: TrafficLog | None, failed: Callable[[str], None]
    ) -> None:
        self.meter = meter
        self.traffic = traffic
        self.usage: UsageSink | None = None
        self.exported: Callable[[EndedRequest], None] | None = None
        self._desk = desk
        self._open: dict[int, Permit] = {}  # over, with calls that the engine may still report on
        self._failed = failed

    def tell(self, listener: Callable[P, None] | None, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call a listener, or a call-back of a permit, if there is one; an error in it is reported."""
        if listener is not None:
            try:
                listener(*args, **kwargs)
            except Exception:
                self._failed(getattr(listener, "__qualname__", "a call-back"))

    def arrived(self, ticket: Ticket) -> None:
        """A request arrived."""
        if self.traffic is not None:
            self.tell(self.traffic.arrived, ticket)

    def stepped(self, load: Load, now_s: float) -> None:
        """The engine made a step."""
        if self.traffic is not None:
            self.tell(self.traffic.stepped, load, now_s)

    def dispatched(self, permit: Permit) -> None:
        """A request has its seats."""
        if self.meter is not None:
            self.tell(self.meter.waited, permit.ticket.class_name, permit.wait_s, permit.batches_waited)

    def first_token(self, permit: Permit, delay_s: float, now_s: float) -> None:
        """The first visible token of a request came ``delay_s`` after its arrival."""
        ticket = permit.ticket
        if self.meter is not None:
            self.tell(self.meter.first_token, ticket.class_name, delay_s, max(0.0, delay_s - permit.wait_s))
        if self.traffic is not None:
            self.tell(self.traffic.first_token, ticket, delay_s, now_s)

    def ended(self, permit: Permit, outcome: Outcome, now_s: float) -> None:
        """A request is over: it ended by itself, was aborted, or was refused."""
        if permit.account is not None:
            self._open[permit.ticket.id] = permit
            self.tell(permit.end_account, outcome)
        ticket, usage = permit.ticket, permit.usage
        tokens = 0 if usage is None else usage.output_tokens
        total_s = (now_s if permit.ended_s is None else permit.ended_s) - ticket.arrived_s
        decode_s = None if permit.first_token_s is None else max(0.0, total_s - permit.first_token_s)
        completed = outcome is Outcome.COMPLETED
        paced = completed and ticket.seats == 1 and tokens > 1
        pace_s = decode_s / (tokens - 1) if paced and decode_s is not None else 0.0
        if self.traffic is not None:
            if completed and usage is not None:
                self.tell(self.traffic.completed, ticket, usage)
            self.tell(self.traffic.ended, ticket, outcome, now_s, tokens, pace_s)
        if self.meter is not None or self.exported is not None:
            ttft_slo_s, inter_token_slo_s = self._objectives_s(ticket)
            ended = EndedRequest(
                class_name=ticket.class_name,
                outcome=outcome,
                ttft_slo_s=ttft_slo_s,
                inter_token_slo_s=inter_token_slo_s,
                dispatched=permit.dispatched_s is not None,
                first_token_s=permit.first_token_s,
                decode_s=decode_s,
                total_s=total_s,
                pace_s=pace_s,
                usage=usage,
                finish_reasons=permit.finish_reasons,
            )
            self.tell(None if self.meter is None else self.meter.ended, ended)
            self.tell(self.exported, ended)

    def account_closed(self, permit: Permit) -> None:
        """A request is over, and the engine has ended all of its calls: its record is made here and nowhere else."""
        ticket, account = permit.ticket, permit.account
        if self._open.pop(ticket.id, None) is None or account is None or account.outcome is None:
            return
        prefill_s = None
        if permit.first_token_s is not None and permit.dispatched_s is not None:
            prefill_s = ticket.arrived_s + permit.first_token_s - permit.dispatched_s
        prompt_tokens, output_tokens = account.prompt_tokens, account.output_tokens
        group = Group(
            tenant=ticket.tenant,
            key=account.key,
            class_name=ticket.class_name,
            model=account.model,
            adapter=account.adapter,
            outcome=account.outcome.value,
            reason="" if permit.reason is None else permit.reason.value,
        )
        figures = Figures(
            requests=1,
            refused=int(permit.reason is not None),
            prompt_tokens=prompt_tokens,
            cached_tokens=account.cached_tokens,
            output_tokens=output_tokens,
            seat_s=account.seat_s,
            kv_token_s=kv_token_s(account.seat_s, ticket.seats, prefill_s, prompt_tokens, output_tokens),
            queue_s=account.queue_s,
        )
        self._keep(group, figures)
        if account.on_closed is not None:
            self.tell(account.on_closed)

    def unclaimed(self, ended: Ended, model: str) -> None:
        """A sequence of the server's own ended in the engine, which belongs to no request."""
        group = Group(SERVER, "", "", model, "", Outcome.COMPLETED.value, "")
        self._keep(group, Figures(1, 0, ended.prompt_tokens, ended.cached_tokens, ended.output_tokens))

    def close_accounts(self) -> None:
        """The server ends: make the records of requests that are over, without the engine's last reports."""
        for permit in list(self._open.values()):
            self.account_closed(permit)

    def _keep(self, group: Group, figures: Figures) -> None:
        if self.usage is not None:
            self.tell(self.usage.add, UsageRecord(time.time(), group, figures))

    def _objectives_s(self, ticket: Ticket) -> tuple[float | None, float | None]:
        """The objectives of a request: first token, and between tokens."""
        if ticket.class_name not in self._desk.preset.classes:
            return None, None
        found = self._desk.objectives(ticket.class_name, ticket.prompt_tokens)
        return found.ttft_s, found.inter_token_s
