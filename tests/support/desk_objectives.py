"""The rules of first-token objectives: who is late, whose queue stands, and when a refusal for an objective is right.

The part of ``desk_oracle`` that knows objectives; it follows the same events.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from desk_rules import Rules

from headway_policies import Desk, Effect, Expire, Reason, Reject, Ticket

#: A class whose first tokens have been seen so often may have them predicted.
PREDICTED_AFTER = 8
#: What has waited for this part of its objective gives way to others of its class.
SURELY_LATE = 0.75
PERHAPS_LATE = 0.6
FOR_OBJECTIVES = (Reason.OBJECTIVE_INFEASIBLE, Reason.OBJECTIVE_UNREACHABLE)
#: An overload is remembered for 16 objectives.
REMEMBERED_TARGETS = 32


class Sent(NamedTuple):
    """A dispatch: its time, its class, and when the ticket arrived that waited longest in that class."""

    at_s: float
    line: str
    oldest_s: float


@dataclass
class ObjectiveRules:
    """The oracle's knowledge of objectives. Tickets, suspects, crashes (``was_running_at``) and those that were
    ``recalled`` are the oracle's own.

    ``short_s`` is when the queue of a class was last known to be short, ``stood_s`` when it last stood.
    """

    desk: Desk
    rules: Rules
    tickets: dict[int, Ticket]
    suspects: dict[int, int]
    was_running_at: dict[int, int]
    recalled: set[int]
    short_s: dict[str, float] = field(default_factory=dict)
    stood_s: dict[str, float] = field(default_factory=dict)
    stepped_s: float = -inf
    dispatches: list[Sent] = field(default_factory=list)
    first_tokens: Counter[str] = field(default_factory=Counter)

    def check_refusals(self, effects: list[Effect], sent: list[Sent], now_s: float) -> None:
        """5a: no seat that a ticket refused for its objective could have had goes to a less urgent one, in that event
        or since it arrived, but for what the order between the classes grants those; where the order is strict nothing
        is granted. 5d: at dispatch another of its class went in that event, or it is late even in an idle engine.
        """
        for effect in effects:
            if not isinstance(effect, Reject | Expire) or effect.reason not in FOR_OBJECTIVES:
                continue
            ticket = self.tickets[effect.ticket_id]
            line = self.rules.line(ticket)
            at_once = effect.reason is Reason.OBJECTIVE_INFEASIBLE
            since = [one for one in self.dispatches if one.at_s >= ticket.arrived_s]
            below = [one for one in (sent if at_once else since) if self._is_below(one.line, line)]
            if at_once:
                assert not below, "refused on arrival while a less urgent one was dispatched"
                continue
            assert all(self._granted(ticket, one) for one in below), "refused although a less urgent one was served"
            alike = any(one.line == line for one in sent)
            late_alone = now_s - ticket.arrived_s + self._alone_s(ticket) > self.slo_s(ticket)
            assert alike or (late_alone and not below), "refused, and none of its class was served for it"

    def _is_below(self, name: str, line: str) -> bool:
        classes = self.desk.preset.classes
        return name in classes and classes[name].priority < classes[line].priority

    def _granted(self, ticket: Ticket, sent: Sent) -> bool:
        """Whether the order between the classes gave a less urgent ticket its turn before this one: by shares, to a
        class that is behind, when the class of this one has had tickets before; by age, to a class that is older by a
        step for each class between them. A custom order may do anything.
        """
        ordering, ranked = self.desk.preset.ordering, self.desk.preset.by_urgency()
        line = self.rules.line(ticket)
        if ":" in ordering.between:
            return True
        if ordering.between == "weighted":
            return any(one.line == line for one in self.dispatches if one.at_s <= sent.at_s)
        steps = ranked.index(sent.line) - ranked.index(line)
        aged = sent.oldest_s + steps * ordering.ageing_step_s <= ticket.arrived_s
        return ordering.between == "ageing" and aged

    def _alone_s(self, ticket: Ticket) -> float:
        """When its first token would come in an idle engine, as far as the engine's steps tell."""
        unloaded = self.desk.engine_fit.unloaded
        return 0.0 if unloaded is None else unloaded.first_token_s(ticket.prompt_tokens)

    def note_lateness(self, now_s: float) -> None:
        """Which waiting tickets may have been put behind the others of their class, and which have to be."""
        rules = self.rules
        rules.relegated &= rules.waiting.keys()
        rules.may_be_late = {
            one.id for one in rules.waiting.values() if self._may_be_late(one, now_s) and one.id not in self.suspects
        }
        rules.surely_late = {
            one
            for one in rules.may_be_late
            if now_s - self.tickets[one].arrived_s > SURELY_LATE * self.slo_s(self.tickets[one])
        }

    def _may_be_late(self, ticket: Ticket, now_s: float) -> bool:
        """Whether its first token may be taken to come after three fifths of its objective. The desk predicts it once
        it has seen some of that class; how, is not known here.
        """
        slo_s = self.slo_s(ticket)
        predicted = self.first_tokens[ticket.class_name] >= PREDICTED_AFTER
        return slo_s < inf and (predicted or now_s - ticket.arrived_s > PERHAPS_LATE * slo_s)

    def slo_s(self, ticket: Ticket) -> float:
        """Its objective, by the class in whose queue it waits; infinite where there is none, for one that was running
        at a crash or made room, and where the engine could not keep it for one alone.
        """
        slo_s = self.desk.preset.classes[self.rules.line(ticket)].ttft_slo_s
        assert not isinstance(slo_s, str), "the oracle knows absolute objectives"
        if slo_s is None or ticket.id in self.was_running_at or ticket.id in self.recalled:
            return inf
        return inf if self._alone_s(ticket) >= slo_s else slo_s

    def target_s(self, ticket: Ticket) -> float:
        """How long it may wait while the queue of its class stands: half of the objective."""
        slo_s = self.desk.preset.classes[self.rules.line(ticket)].ttft_slo_s
        assert not isinstance(slo_s, str), "the oracle knows absolute objectives"
        return inf if slo_s is None else slo_s / 2

    def is_short(self, ticket: Ticket, now_s: float) -> None:
        """Note that the queue of its class is short or empty; it may have been a standing one until now."""
        line = self.rules.line(ticket)
        if self.stands(ticket, now_s):
            self.stood_s[line] = now_s
        self.short_s[line] = now_s

    def stands(self, ticket: Ticket, now_s: float) -> bool:
        """Its queue was never short for one target, and for the length of a burst as well unless it stood lately."""
        target_s, burst_s = self.target_s(ticket), self.desk.preset.classes[self.rules.line(ticket)].burst_s
        patience_s = 0.0 if self.stood_lately(ticket, now_s) else 4 * target_s if burst_s is None else burst_s
        return self._stood_s(ticket, now_s) > patience_s + target_s

    def stood_lately(self, ticket: Ticket, now_s: float) -> bool:
        stood_s = self.stood_s.get(self.rules.line(ticket), -inf)
        return now_s - stood_s <= REMEMBERED_TARGETS * self.target_s(ticket)

    def _stood_s(self, ticket: Ticket, now_s: float) -> float:
        """For how long the queue of its class has been known to be no short one."""
        return now_s - self.short_s.get(self.rules.line(ticket), -inf)
