"""The simulator's shell around the desk, on a virtual clock.

The shell drives the same ``Desk`` as the gate does in production. It owns the virtual clock, the engine model and the
clients, sends the desk every event at its instant and carries out the effects. At one instant the end of a step goes
before all events from outside, and a step begins after all of them.

The engine's steps are reported to the desk (``observe``) once for each stretch of at most ``STRETCH_STEPS`` equal
steps, and only where the preset's limit policy learns from them; a real server reports each step. Tokens
after the first are reported when they stop, or when one of the desk's time-outs is due: it uses them only then.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from random import Random
from typing import assert_never

from headway_policies import (
    Abort,
    Degrade,
    Desk,
    Dispatch,
    Effect,
    Ending,
    Expire,
    Load,
    Outcome,
    Preset,
    Recall,
    Reject,
    Requeue,
    Ticket,
    WakeAt,
)
from headway_policies.request import LEFT, PREFIX_TOKENS, REFUSED, Usage
from headway_policies.step import StepPolicy, StepTerms
from headway_simulator.engine_model.engine import Engine, EngineModel, Sequence, Steps
from headway_simulator.run.bare import Bare
from headway_simulator.run.result import Moment, Result
from headway_simulator.run.visit import Visit
from headway_simulator.run.warm import warm_desk
from headway_simulator.traffic.clients import Clients
from headway_simulator.traffic.workload import Request

STRETCH_STEPS = 16
_ANY = 1 << 40
_BYTES_A_TOKEN = 4
#: Of the usual classes, for a bare engine whose own queue goes by priority.
_USUAL_URGENCY = {"realtime": -3, "normal": -2, "batch": -1}
_REPORT_EVERY = 2000


def simulate(
    requests: Iterable[Request],
    preset: Preset | None,
    model: EngineModel = EngineModel(),  # noqa: B008 - frozen
    *,
    clients: Clients | None = None,
    seed: int = 0,
    switches: Iterable[tuple[float, Preset]] = (),
    most_inside: int | None = None,
    one_by_one: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Result:
    """Serve these requests, in order of ``at_s``, under a preset; without one, by the bare engine (see ``Bare``).

    The engine has been warmed up under the preset, as a server's is before it takes requests.

    ``switches`` puts other presets in force at their times. ``one_by_one`` takes no two steps at once: slower, with the
    same result under any policy that does not count steps. ``progress`` is called now and then with the number of
    arrivals.
    """
    front: Desk | Bare = Bare(most_inside) if preset is None else warm_desk(preset, model)
    shell = Shell(front, Engine(model), clients or Clients(), Random(seed), one_by_one)  # noqa: S311 - to be repeatable
    return shell.run(requests, switches, progress)


class Shell:
    """The shell of a run: the desk (or none), the engine and the clients on one clock."""

    def __init__(self, front: Desk | Bare, engine: Engine, clients: Clients, random: Random, one_by_one: bool) -> None:
        self._front = front
        self._engine = engine
        self._clients = clients
        self._random = random
        self._one_by_one = one_by_one
        self._visits: list[Visit] = []
        self._result = Result(engine.model, self._visits, front.ledger)
        self._requests: Iterator[Request] = iter(())
        self._next: Request | None = None
        self._progress: Callable[[int], None] | None = None
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = itertools.count()
        self._wake_s = math.inf
        self._now_s = self._stepped_s = 0.0
        self._waiting = 0
        self._failures: dict[tuple[str, str | float], str] = {}
        self._adapts_later = False

    def run(
        self,
        requests: Iterable[Request],
        switches: Iterable[tuple[float, Preset]],
        progress: Callable[[int], None] | None,
    ) -> Result:
        """Serve until no request is left. Requests that would wait for ever are refused by a drain, their end."""
        self._requests, self._progress = iter(requests), progress
        self._next = next(self._requests, None)
        for at_s, preset in switches:
            self._at(at_s, partial(self._switch, preset))
            self._adapts_later = self._adapts_later or preset.limit.moves  # it starts from what was seen before
        self._learn_terms()
        engine = self._engine
        while True:
            due_s = self._due_s()
            if engine.ends_s > due_s:
                self._now_s = due_s
                self._from_outside(due_s)
                if engine.startable and self._due_s() > due_s:
                    engine.begin(due_s)  # with all that arrived at this instant
            elif due_s == math.inf == engine.ends_s:
                break
            else:
                self._step(engine.finish(due_s, self._most_steps))
                engine.begin(self._now_s)
                if self._stalls and engine.interrupted:
                    self._report_tokens(engine.interrupted)
        self._record_failures()
        self._carry_out(self._front.drain(self._now_s))
        return self._result

    # ------------------------------------------------------------------ events from outside

    def _due_s(self) -> float:
        due_s = self._wake_s
        if self._next is not None and self._next.at_s < due_s:
            due_s = self._next.at_s
        if self._timers and self._timers[0][0] < due_s:
            due_s = self._timers[0][0]
        return due_s

    def _from_outside(self, now_s: float) -> None:
        """The next event from outside: the desk's timer, a timer of a client, or an arrival."""
        if self._wake_s <= now_s:
            self._wake_s = math.inf
            if self._stalls:
                self._report_tokens(self._engine.running)
            self._carry_out(self._front.tick(now_s))
        elif self._timers and self._timers[0][0] <= now_s:
            heapq.heappop(self._timers)[2]()
        else:
            request = self._next
            assert request is not None
            self._next = next(self._requests, None)
            self._arrive(request, 0)

    def _at(self, at_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (at_s, next(self._serial), act))

    def _arrive(self, request: Request, attempt: int) -> None:
        now_s, name, preset = self._now_s, request.class_name, self._front.preset
        if preset is not None and name not in preset.classes:
            name = preset.default_class
        visit = Visit(len(self._visits), request, attempt, name, now_s)
        self._visits.append(visit)
        self._waiting += 1
        self._plan_departure(visit)
        ticket = Ticket(
            visit.id,
            name,
            now_s,
            request.tenant,
            prompt_tokens=request.prompt_tokens,
            prompt_bytes=request.prompt_tokens * _BYTES_A_TOKEN,
            max_tokens=request.max_tokens,
            prefix=_prefix(request, visit.id),
            adapter=request.adapter or None,
        )
        self._carry_out(self._front.arrive(ticket, now_s))
        if self._progress is not None and visit.id % _REPORT_EVERY == 0:
            self._progress(visit.id)

    def _plan_departure(self, visit: Visit) -> None:
        clients, now_s = self._clients, self._now_s
        if clients.patience_s is not None:
            self._at(now_s + clients.patience_s, partial(self._give_up, visit, having_waited=True))
        if clients.cancel_ratio and self._random.random() < clients.cancel_ratio:
            leaves_s = now_s + self._random.random() * clients.cancel_within_s
            self._at(leaves_s, partial(self._give_up, visit, having_waited=False))

    def _give_up(self, visit: Visit, *, having_waited: bool) -> None:
        """The client disconnects. Where the engine runs its sequence, the seat is free once it is stopped."""
        if visit.outcome is not None or (having_waited and visit.first_s is not None):
            return
        if visit.sequence is not None:
            self._engine.abort(visit.sequence)
            return
        self._waiting -= 1
        self._carry_out(self._front.leave(visit.id, Ending.CANCELLED, self._now_s))
        self._end(visit, Outcome.CANCELLED_QUEUED)

    def _switch(self, preset: Preset) -> None:
        assert isinstance(self._front, Desk), "an engine alone has no preset"
        self._record_failures()
        effects = self._front.switch(preset, self._now_s)
        self._learn_terms()
        self._carry_out(effects)

    def _record_failures(self) -> None:
        """Record the failed policies of the preset in force, before a switch and at the end."""
        if isinstance(self._front, Desk):
            self._record_failures_of(self._front)
        self._result.policy_failures = ", ".join(self._failures.values())

    def _record_failures_of(self, desk: Desk) -> None:
        reading = desk.read(self._now_s)
        order_failed, window_failed, limit = reading.order_failed, reading.window_failed, reading.limit_failure
        if order_failed is not None:
            self._failures["order", order_failed] = f"the order: {order_failed}"
        if window_failed is not None:
            self._failures["window", window_failed] = f"the window: {window_failed}"
        if limit is not None:  # of one limit only the last count is kept, though two presets may share it
            times = "once" if limit.times == 1 else f"{limit.times} times"
            text = f"the limit: {limit.policy} failed {times}, first at {limit.first_s:.1f} s with {limit.error}"
            self._failures[limit.policy, limit.first_s] = text

    def _learn_terms(self) -> None:
        """Learn the preset's terms: the urgency of its classes, and which events its policies use."""
        preset = self._front.preset
        self._urgency, self._stalls, self._observes, one_by_one = _USUAL_URGENCY, False, False, False
        if preset is not None:
            self._urgency = {name: -terms.priority for name, terms in preset.classes.items()}
            self._stalls = any(terms.stall_timeout_s for terms in preset.classes.values())
            follows = preset.limit.moves or any(terms.relative for terms in preset.classes.values())
            self._observes = follows or preset.ordering.by_prefix or self._adapts_later
            shape = StepTerms.of(preset.step, {-settings.priority: settings for settings in preset.classes.values()})
            self._shape(shape)
            one_by_one = preset.limit.paces or shape is not None
        self._most_steps = 1 if self._one_by_one or one_by_one else STRETCH_STEPS if self._observes else _ANY

    def _shape(self, terms: StepTerms | None) -> None:
        """Put the step policy of a preset in force, with the learnt figures of the earlier preset."""
        if self._engine.step_policy is not None:
            self._engine.step_policy.terms = terms
        elif terms is not None:
            self._engine.step_policy = StepPolicy(terms)

    # ------------------------------------------------------------------ the engine's steps

    def _step(self, steps: Steps) -> None:
        self._now_s = self._stepped_s = now_s = self._engine.ends_s
        if steps.count:
            self._result.count(steps)
        if self._stalls and self._wake_s <= now_s:
            self._report_tokens(self._engine.running)
        if now_s >= self._result.next_moment_s:
            usage_ratio = self._engine.kv_usage_ratio
            limit, made_tokens = self._front.limit, self._result.made_tokens
            self._result.note(Moment(now_s, self._waiting, steps.running, limit, usage_ratio, made_tokens))
        front = self._front
        for sequence in steps.dropped:
            if self._visits[sequence.id].sequence is sequence:  # else it made room, and its visit goes on
                self._left(sequence, Ending.CANCELLED)
        for sequence in steps.first:
            self._visits[sequence.id].first_s = now_s
            self._carry_out(front.first_token(sequence.id, now_s))
        for sequence in steps.ended:
            self._left(sequence, Ending.COMPLETED)
        if self._observes:
            self._carry_out(front.observe(self._load(steps), now_s))

    def _report_tokens(self, sequences: Iterable[Sequence]) -> None:
        """Each of these made a token in the last step, unless its prompt is not computed yet."""
        for sequence in sequences:
            if sequence.decoding or not sequence.running:
                self._front.token_batch(sequence.id, self._stepped_s)

    def _left(self, sequence: Sequence, ending: Ending) -> None:
        """The sequence left the engine. Its time may run out in this very event: the desk's effects go first."""
        visit = self._visits[sequence.id]
        visit.sequence = None
        visit.made_tokens = sequence.made_tokens
        usage = Usage(sequence.prompt_tokens, sequence.made_tokens)
        self._carry_out(self._front.leave(visit.id, ending, self._now_s, usage))
        self._end(visit, LEFT[ending][1])

    def _load(self, steps: Steps) -> Load:
        return Load(
            running=steps.running,
            waiting=self._engine.waiting,
            kv_usage_ratio=self._engine.kv_usage_ratio,
            inter_token_s=steps.step_s if steps.decoding else None,
            prefill_tokens=steps.prefill_tokens,
            preemptions=steps.preemptions,
            kv_capacity_tokens=self._engine.model.kv_tokens,
            prefix_queried_tokens=steps.prefix_queried_tokens,
            prefix_hit_tokens=steps.prefix_hit_tokens,
            first_tokens=len(steps.first),
            steps=steps.count,
        )

    # ------------------------------------------------------------------ the desk's effects

    def _carry_out(self, effects: list[Effect]) -> None:
        """Carry out effects in sequence, the effects of a failed dispatch last."""
        todo = deque(effects)
        while todo:
            effect = todo.popleft()
            match effect:
                case Dispatch():
                    todo.extend(self._dispatch(effect))
                case WakeAt():
                    self._wake_s = effect.at_s
                case Reject() | Expire():
                    self._refuse(effect)
                case Abort():
                    self._abort(effect)
                case Degrade():
                    self._visits[effect.ticket_id].most_tokens = effect.max_tokens
                case Recall():
                    self._recall(effect)
                case Requeue():
                    raise AssertionError("a request is requeued only when its engine died, and the model's never dies")
                case _:
                    assert_never(effect)

    def _dispatch(self, effect: Dispatch) -> list[Effect]:
        """Start a request in the engine. The effects of its end, where it is larger than the engine's KV cache."""
        visit = self._visits[effect.ticket_id]
        request = visit.request
        visit.dispatched_s, visit.batch = self._now_s, effect.batch
        self._waiting -= 1
        output_tokens = request.output_tokens
        if visit.most_tokens is not None:
            output_tokens = min(output_tokens, visit.most_tokens)
        if not self._engine.could_hold(request.prompt_tokens, output_tokens):
            self._end(visit, Outcome.FAILED)
            return self._front.leave(visit.id, Ending.FAILED, self._now_s)
        urgency = self._urgency.get(visit.class_name, 0)
        visit.sequence = Sequence(
            visit.id,
            request.prompt_tokens,
            output_tokens,
            urgency,
            prefix=request.prefix,
            prefix_tokens=request.prefix_tokens,
            sent_s=self._now_s,
            adapter=request.adapter,
        )
        self._engine.submit(visit.sequence)
        return []

    def _refuse(self, effect: Reject | Expire) -> None:
        visit = self._visits[effect.ticket_id]
        self._waiting -= 1
        visit.reason = effect.reason
        self._end(visit, REFUSED[effect.reason])
        clients = self._clients
        if visit.attempt < clients.retries:
            obedient = self._random.random() < clients.obedient_ratio
            again_s = self._now_s + (effect.retry_after_s if obedient else clients.hasty_s)
            self._at(again_s, partial(self._arrive, visit.request, visit.attempt + 1))

    def _recall(self, effect: Recall) -> None:
        """The visit waits again; the engine stops its sequence at the end of the step."""
        visit = self._visits[effect.ticket_id]
        if visit.sequence is None:
            return  # dispatched in the same event, and failed
        self._engine.abort(visit.sequence)
        self._result.recalls += 1
        visit.sequence = visit.dispatched_s = visit.most_tokens = None
        self._waiting += 1

    def _abort(self, effect: Abort) -> None:
        visit = self._visits[effect.ticket_id]
        visit.reason = effect.reason
        self._end(visit, REFUSED[effect.reason])
        if visit.sequence is not None:
            self._engine.abort(visit.sequence)

    def _end(self, visit: Visit, outcome: Outcome) -> None:
        """Record the one end of a visit; later ones are ignored."""
        if visit.outcome is None:
            visit.outcome = outcome
            visit.ended_s = self._result.ended_s = self._now_s


def _prefix(request: Request, visit_id: int) -> tuple[int, ...]:
    """The blocks of a prompt: those within the common prefix are the same for all that have it."""
    if not request.prefix:
        return ()
    common, own = 2 * request.prefix, 2 * visit_id + 1
    lengths = [tokens for tokens in PREFIX_TOKENS if tokens <= request.prompt_tokens]
    return tuple((common if tokens <= request.prefix_tokens else own) << 16 | tokens for tokens in lengths)
