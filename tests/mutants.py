"""Mutation tests with hand-written faults: each is put into a copy of the code, and the tests have to fail.

    python tests/mutants.py [word of a file or a fault ...]

The live tree is never touched. Each fault is one replacement of a text that occurs once; a text that is gone is an
error here, so that the list stays valid. At least 95 % must be caught, and each survivor explained. ``tests/mutation``
has faults that are generated.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: The packages into which faults are put, with the folder each stands in.
PACKAGES = {"headway_policies": "policies", "headway": "plugin"}
#: Fast ones first: the first failure ends a run.
POLICY_TESTS = [
    *(f"tests/policies/desk/test_{name}.py" for name in ("desk", "desk_whole", "desk_questions", "desk_fallback")),
    *(f"tests/policies/engine/test_{name}.py" for name in ("crash_suspects", "restart_policy", "watchdog")),
    *(
        f"tests/policies/desk/test_{name}.py"
        for name in ("opening", "engine_events", "timeouts", "transitions", "seats")
    ),
    *(f"tests/policies/{name}.py" for name in ("queueing/test_wait_queue", "batching/test_strategy")),
    *(f"tests/policies/desk/test_{name}.py" for name in ("early_refusal", "deadlines", "retry_after")),
    *(f"tests/policies/{name}.py" for name in ("limits/test_governor", "limits/test_pacing", "desk/test_desk_pacing")),
    *(f"tests/policies/desk/test_desk_{name}.py" for name in ("model", "machine")),
    *(
        f"tests/policies/queueing/test_{name}.py"
        for name in ("orders", "safe_order", "disciplines", "controlled_delay", "prefix_share")
    ),
    *(f"tests/policies/{name}.py" for name in ("desk/test_desk_prefixes", "prediction/test_prefix_cache")),
    *(
        f"tests/policies/{name}.py"
        for name in ("desk/test_desk_slices", "fallback/test_error_rate", "fallback/test_ladder")
    ),
    *(f"tests/policies/trial/test_{name}.py" for name in ("condition", "trial")),
    "tests/policies/diagnosis/test_diagnosis.py",
    "tests/scenarios",
]
PLUGIN_TESTS = [
    f"tests/plugin/{name}.py"
    for name in (
        "http/admin/test_tokens",
        "operator/test_trials",
        "operator/test_diagnostics",
        "operator/test_forecast_errors",
        "recorder/test_served",
        "http/inference/test_prompt_prefix",
        "admission/test_prefix_hashes",
        "admission/test_gateway",
        "admission/test_engine_seats",
        "batcher/test_batcher",
        "fallback/test_client",
    )
]
MIN_CAUGHT = 0.95
TIME_OUT_S = 900.0
#: The time-out of a run, as a multiple of the time that the tests take without any fault.
TIMES_THE_CLEAN_RUN = 8.0
MIN_TIME_OUT_S = 90.0

PROFILE = """
from hypothesis import Phase, settings
settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate], derandomize=True, database=None)
settings.load_profile("mutants")
"""


@dataclass(frozen=True)
class Mutant:
    """One fault: in ``file``, ``old`` becomes ``new``. ``survives`` gives the reason why no test can detect it.

    A file is named without its package where that is ``headway_policies``: ``desk/ledger``, ``headway/http/auth``.
    """

    file: str
    fault: str
    old: str
    new: str
    survives: str = ""

    @property
    def path(self) -> Path:
        """The file, below the folder that holds the packages."""
        return Path(f"{self.file}.py" if self.file.startswith("headway/") else f"headway_policies/{self.file}.py")

    @property
    def tests(self) -> list[str]:
        """The tests that have to notice it, those of the same file and folder first: most faults end there."""
        tests = PLUGIN_TESTS if self.path.parts[0] == "headway" else POLICY_TESTS
        folder, stem = self.path.parts[-2], self.path.stem
        return sorted(tests, key=lambda test: (stem not in test, f"/{folder}/" not in test))


MUTANTS = [
    # the desk and its parts
    Mutant(
        "queueing/controlled_delay",
        "one wait within the target ends a standing queue",
        "longest_s <= self.target_s / 2 or not",
        "longest_s <= self.target_s or not",
    ),
    Mutant(
        "queueing/controlled_delay",
        "a standing queue is not remembered",
        "            self._stood_s = self._left_s\n",
        "            pass\n",
    ),
    Mutant(
        "desk/objectives",
        "an empty queue stands on",
        "        if not self._scheduler.queue.by_class[ticket.class_name].requests:\n            delay.empty(now_s)\n",
        "",
    ),
    Mutant(
        "desk/objectives",
        "a tenant that is served at once hides the queue of another",
        "(arrived_s if oldest_s is None else min(arrived_s, oldest_s))",
        "arrived_s",
    ),
    Mutant(
        "desk/scheduler",
        "a tenant waits for all that another one has waiting",
        "if not waiting.requests or not isinstance(order, ClassQueues):",
        "if True:",
    ),
    Mutant(
        "desk/objectives",
        "a pause counts as an overload",
        "        for delay in self._delays.values():\n            delay.reopened(now_s)\n",
        "        pass\n",
    ),
    Mutant(
        "desk/objectives",
        "waits are cut in every burst",
        "if delay is None or not delay.overloaded(now_s) or not self._forecast.waits_known:",
        "if delay is None:",
    ),
    Mutant(
        "desk/objectives",
        "a class is held more than its share",
        "int(self._shares[class_name] * limit))",
        "limit)",
    ),
    Mutant(
        "desk/objectives",
        "a seat is held for a demand of almost nothing",
        "if offered < _NEGLIGIBLE_SEATS or self",
        "if self",
    ),
    Mutant(
        "desk/admit",
        "an arrival that would be late takes the place of another",
        "opened=opened) if opened or evicts else None",
        "opened=opened) if not evicts else None",
    ),
    Mutant(
        "desk/dispatch",
        "the last one waiting is cut as any other",
        "if not objectives.contested(name, now_s) or",
        "if not objectives.overloaded(name, now_s) or",
    ),
    Mutant(
        "queueing/safe_order",
        "waiting tickets are lost with a custom order that failed",
        "            self._order.push(place.ticket, place.class_name, place.tokens, place.pushed_s)",
        "            pass",
    ),
    Mutant("queueing/safe_order", "the answer of a custom order is not checked", "if not wrong(answer):", "if True:"),
    Mutant(
        "queueing/safe_order",
        "a barred ticket is dispatched",
        "return not self._waits(ticket) or self._places[ticket.id].class_name in excluded",
        "return not self._waits(ticket)",
    ),
    Mutant(
        "queueing/safe_order",
        "another ticket with the same id is taken for the waiting one",
        "place.ticket is ticket",
        "place.ticket.id == ticket.id",
    ),
    Mutant(
        "queueing/safe_order",
        "a removed ticket is still counted",
        "        self._waiting[place.class_name] -= 1\n",
        "",
    ),
    Mutant("queueing/factory", "a custom order is not wrapped", '":" in name', '"::" in name'),
    Mutant("desk/mode", "a paused desk dispatches requests", "self.draining or self.holds", "self.draining"),
    Mutant(
        "desk/mode",
        "a lost engine receives requests",
        "not held and self.engine is EngineState.UP",
        "not held",
    ),
    Mutant(
        "desk/mode",
        "a pause ends a drain",
        "        self.holds |= {hold}\n",
        "        self.holds |= {hold}\n        self.draining = False\n",
    ),
    Mutant(
        "desk/desk",
        "an ended request's seat is not filled",
        "usage, sequences, now_s)\n            self._dispatcher.fill(now_s)",
        "usage, sequences, now_s)",
    ),
    Mutant(
        "desk/lifecycle",
        "an ended request frees no seat",
        "        self._occupy(record, min(sequences, record.sequences), now_s)\n",
        "",
    ),
    Mutant(
        "desk/lifecycle",
        "a settled ticket ends twice",
        "        if phase is not Phase.SETTLED:\n            self._ledger",
        "        if True:\n            self._ledger",
    ),
    Mutant(
        "desk/dispatch",
        "no request behind an expired one is dispatched",
        "        if lifecycle.effects or cleared:",
        "        if cleared:",
    ),
    Mutant(
        "desk/desk", "a full slice asks for no tick", "        if not self._dispatcher.patience:", "        if False:"
    ),
    Mutant("desk/desk", "an armed tick is asked for again", "(armed_s is None or due_s < armed_s)", "True"),
    Mutant(
        "desk/desk", "a tick stays armed", "        self._armed_s = None\n        self._begin", "        self._begin"
    ),
    Mutant("desk/desk", "no tick for a batch", "if self._scheduler.strategy.barrier and self.mode.open:", "if False:"),
    Mutant(
        "desk/admit",
        "an arrival's own time-outs are ignored",
        "        if ticket.asked is not NO_TIMEOUTS:",
        "        if False:",
    ),
    Mutant(
        "desk/admit", "time runs from the event", "ticket.arrived_s + stages.patience_s", "now_s + stages.patience_s"
    ),
    Mutant(
        "desk/lifecycle",
        "the wait has no deadline",
        "            if record.queue_due_s is not None:\n                self.deadlines.set(record.ticket.id,",
        "            if False:\n                self.deadlines.set(record.ticket.id,",
    ),
    Mutant(
        "desk/lifecycle",
        "no stall after the first token",
        "self.deadlines.hasten(record.ticket.id, now_s + record.timeouts.stall_s)",
        "pass",
    ),
    Mutant(
        "desk/lifecycle",
        "a follow-up call has stalled already",
        "if not record.seats and record.token_s is not None:",
        "if False:",
    ),
    Mutant(
        "desk/desk",
        "tokens do not postpone the stall",
        "            self._lifecycle.token(record, now_s)",
        "            pass",
    ),
    Mutant(
        "desk/dispatch",
        "a request that may not wait is queued",
        "        if not ticket.may_wait and",
        "        if False and",
    ),
    Mutant(
        "desk/mode",
        "a draining desk queues arrivals",
        "self.closed = Reason.DRAINING if self.draining else None",
        "self.closed = None",
    ),
    Mutant(
        "desk/mode",
        "a switch keeps the revision",
        "        self.preset = preset\n        self.revision += 1\n",
        "        self.preset = preset\n        self.revision = 1\n",
    ),
    Mutant(
        "desk/capacity",
        "a switch keeps the limit",
        "        return make_limit(settings, preset.batching.seats, self.ceiling, self.engine)",
        "        return self._limit",
    ),
    Mutant(
        "desk/desk",
        "a switch files by id only",
        "sorted(self._scheduler.queue, key=lambda ticket: (ticket.arrived_s, ticket.id))",
        "sorted(self._scheduler.queue, key=lambda ticket: -ticket.id)",
    ),
    Mutant(
        "desk/desk",
        "a switch fills no new seat",
        "            self._refuse_shed(now_s)\n        self._fill_again(now_s, closed=closed)",
        "            self._refuse_shed(now_s)",
    ),
    Mutant(
        "desk/desk",
        "the lost engine keeps its seats",
        "            self._lifecycle.engine_gone(record, now_s)\n        self._scheduler.prefixes.clear()",
        "        self._scheduler.prefixes.clear()",
    ),
    Mutant(
        "desk/desk",
        "a response that is still being sent is queued again",
        "lost = record.phase is Phase.RUNNING and record.sequences > 0",
        "lost = record.phase is Phase.RUNNING",
    ),
    Mutant("desk/capacity", "the ceiling is no ceiling", "max(1, min(seats, self.ceiling))", "seats"),
    Mutant(
        "desk/dispatch",
        "a late head is dispatched",
        "if self._too_late(record, now_s) or self._gives_way(record, now_s):",
        "if self._too_late(record, now_s):",
    ),
    Mutant(
        "desk/dispatch",
        "running ones are never given up",
        "            self._lifecycle.abort(record, due[1])",
        "            pass",
    ),
    Mutant(
        "desk/transitions",
        "an event is applied to an ended ticket",
        "    (Phase.SETTLED, Event.RELEASE): Phase.ENDED,\n",
        "    (Phase.SETTLED, Event.RELEASE): Phase.ENDED,\n    (Phase.ENDED, Event.LEAVE): Phase.ENDED,\n",
    ),
    # scheduler
    Mutant("desk/scheduler", "no barrier between batches", "        if self.seats.taken:\n            return []\n", ""),
    Mutant(
        "desk/scheduler",
        "a ticket that does not fit is passed by all others",
        "        return None if ticket is None else self._passing_by(lane, ticket, now_s)",
        "        return None if ticket is None else next((one for one in lane.order if self.fits(one)), None)",
    ),
    Mutant(
        "desk/scheduler",
        "no ticket passes into a reserve",
        "if reserved and self._tokens_fit(head) else None",
        "if False else None",
    ),
    Mutant(
        "desk/scheduler",
        "a reserve passes a ticket that waits for tokens",
        "if reserved and self._tokens_fit(head) else None",
        "if reserved else None",
    ),
    Mutant(
        "desk/scheduler",
        "what is over the budget never runs",
        "not self.seats.taken or self.seats.tokens",
        "self.seats.tokens",
    ),
    Mutant(
        "desk/scheduler",
        "the budget is off by one",
        "self.seats.tokens + ticket.total_tokens <= budget_tokens",
        "self.seats.tokens + ticket.total_tokens < budget_tokens",
    ),
    Mutant(
        "desk/scheduler",
        "the budget does not fill a batch",
        "full = lane.seats >= most_seats or (budget_tokens is not None and lane.tokens >= budget_tokens)",
        "full = lane.seats >= most_seats",
    ),
    Mutant(
        "desk/lifecycle",
        "tokens are never released",
        "tokens = record.ticket.total_tokens * (bool(seats) - bool(before))",
        "tokens = 0",
    ),
    Mutant(
        "desk/scheduler",
        "the newest bin is dispatched first",
        "key=lambda one: one[0].opened_s)",
        "key=lambda one: -one[0].opened_s)",
    ),
    # seats, waiting
    Mutant(
        "desk/seats",
        "one seat too many",
        "if self.taken >= limit:",
        "if self.taken > limit:",
        survives="a short cut: the two rules after it give the same result for every class",
    ),
    Mutant("desk/seats", "reserves have no effect", "return min(held, limit - 1)", "return 0"),
    Mutant("desk/seats", "reserves block all classes", "return min(held, limit - 1)", "return held"),
    Mutant(
        "desk/seats",
        "classes of equal rank reserve against each other",
        "classes[other].priority > one.priority",
        "classes[other].priority >= one.priority",
    ),
    Mutant(
        "desk/seats",
        "a used reserve still counts",
        "max(0, self._reserved[other] - self.taken_by(other))",
        "self._reserved[other]",
    ),
    Mutant(
        "queueing/wait_queue",
        "one more than the bound waits",
        "self.requests >= bounds.max_waiting",
        "self.requests > bounds.max_waiting",
    ),
    Mutant(
        "queueing/wait_queue",
        "tokens are bounded one below",
        "self.tokens + ticket.prompt_tokens > bounds.max_waiting_tokens",
        "self.tokens + ticket.prompt_tokens >= bounds.max_waiting_tokens",
    ),
    Mutant(
        "queueing/wait_queue",
        "bytes are not bounded",
        "self.bytes + ticket.prompt_bytes > bounds.max_waiting_bytes",
        "False",
    ),
    Mutant(
        "queueing/wait_queue",
        "equals are evicted",
        "if one.requests and self.classes[name].priority < urgency:",
        "if one.requests and self.classes[name].priority <= urgency:",
    ),
    Mutant(
        "queueing/wait_queue",
        "evicted for nothing",
        "return rest is not self.total and not rest.over(ticket, self.queue)",
        "return rest is not self.total",
    ),
    Mutant(
        "queueing/wait_queue",
        "the window opens with the last arrival",
        "return min((ticket.arrived_s for ticket in self.order.oldest()), default=None)",
        "return max((ticket.arrived_s for ticket in self.order), default=None)",
    ),
    # orders, lines, deadlines, batching
    Mutant(
        "queueing/strict",
        "strict serves the least urgent first",
        "for one in self._queues:\n            if one.waiting and one.name not in excluded:",
        "for one in reversed(self._queues):\n            if one.waiting and one.name not in excluded:",
    ),
    Mutant(
        "queueing/class_queues",
        "the most urgent are evicted first",
        "for one in reversed(self._queues):\n            if one.priority >= priority:",
        "for one in self._queues:\n            if one.priority >= priority:",
    ),
    Mutant("queueing/class_queues", "a removed ticket stays counted in its class", "        one.waiting -= 1\n", ""),
    Mutant(
        "queueing/ageing",
        "waiting does not raise the urgency",
        "oldest.arrived_s - one.rank * self._step_s",
        "-one.rank * self._step_s",
    ),
    Mutant(
        "queueing/weighted",
        "dispatch is not charged to the class",
        "self._credits[class_name] -= tokens\n        super().charge",
        "super().charge",
    ),
    Mutant("queueing/weighted", "shares do not matter", "share / least for name, share", "1.0 for name, share"),
    Mutant(
        "queueing/fair_share",
        "dispatch is not charged to the tenant",
        "self._last.served_tokens += tokens / ticket.share",
        "pass",
    ),
    Mutant(
        "queueing/fair_share",
        "an absent tenant accumulates credit",
        "floor - CREDIT_TICKETS * self._mean_tokens",
        "0.0",
    ),
    Mutant(
        "queueing/fair_share",
        "a tenant that comes back has no credit",
        "- CREDIT_TICKETS * self._mean_tokens",
        "",
    ),
    Mutant("limits/pacing", "quiet time is saved without end", "min(spare_s, _DEPTH_STEPS * set_point_s)", "spare_s"),
    Mutant("limits/pacing", "a pause is made up for in full", "max(-_FLOOR_STEPS * set_point_s, ", "max(-math.inf, "),
    Mutant("limits/pacing", "what was dispatched does not count", "self._tokens += prompt_tokens", "pass"),
    Mutant("limits/pacing", "what has ended stays counted", "        self._tokens -= tokens\n", ""),
    Mutant("limits/pacing", "each sequence counts as a request", "if sequences > first_tokens:", "if False:"),
    Mutant(
        "limits/pacing",
        "what is urgent keeps it closed",
        "urgent and self._ahead_s < turn_s",
        "urgent",
    ),
    Mutant("limits/pacing", "a silent engine is paced", " or now_s >= self.stale_s:", ":"),
    Mutant("limits/pacing", "what is urgent is never paced", "> -_URGENT_STEPS * self", "> -math.inf * self"),
    Mutant(
        "desk/scheduler",
        "what is urgent may take all that the pace has",
        "_with_root(shares_of[urgent] / present * max(taken + 1, self.limit)) - seats_of(urgent)",
        "self.limit",
    ),
    Mutant("desk/scheduler", "batches are paced", "None if self.strategy.barrier else self.pacer", "self.pacer"),
    Mutant("desk/scheduler", "an idle engine stays behind its pace", "self.pacer.idle()", "pass"),
    Mutant("desk/lifecycle", "an aborted prompt stays counted", "self._scheduler.pacer.gone(record.ticket.id)", "pass"),
    Mutant(
        "desk/desk", "no timer is set for a silent engine", "due_s = shorter(due_s, capacity.pacer.stale_s)", "pass"
    ),
    Mutant("queueing/prefix_share", "the shortest match goes first", "(-sharers.depth, self", "(sharers.depth, self"),
    Mutant(
        "queueing/prefix_share",
        "a tenant needs no credit for a match",
        "if self._waiting[tenant].served_tokens < self._allowance_tokens:",
        "if True:",
    ),
    Mutant(
        "queueing/prefix_share",
        "a ticket may be overtaken without end",
        "0 if first else self._overtaken.get(ticket.tenant, 0) + 1",
        "0",
    ),
    Mutant(
        "queueing/prefix_share",
        "a block of which all were passed over takes part in no search again",
        "sharers.resting = False\n            if self._is_match(sharers):",
        "sharers.resting = False\n            if False:",
    ),
    Mutant("prediction/prefix_cache", "the oldest prompt goes first", "self._blocks.move_to_end(block)", "pass"),
    Mutant(
        "prediction/prefix_cache",
        "hits correct nothing",
        "self._capacity_tokens * self.factor",
        "self._capacity_tokens",
    ),
    Mutant(
        "desk/scheduler",
        "an emptied prefix cache is taken for full",
        "            prefixes.clear()\n",
        "            pass\n",
    ),
    Mutant(
        "queueing/disciplines",
        "the latest arrival is served first",
        "return next(iter(self._tickets.values()), None)\n\n    def remove",
        "return next(reversed(self._tickets.values()), None)\n\n    def remove",
    ),
    Mutant(
        "queueing/disciplines",
        "the latest deadline is served first",
        "heappush(self._heap, (ticket.arrived_s + allowed_s,",
        "heappush(self._heap, (-ticket.arrived_s - allowed_s,",
    ),
    Mutant(
        "queueing/disciplines",
        "the smallest response ratio is served first",
        "return max(firsts, key=lambda first: ((now_s",
        "return min(firsts, key=lambda first: ((now_s",
    ),
    Mutant(
        "desk/deadlines",
        "a moved deadline still expires at its old time",
        "            if self._at_s.get(ticket_id) == due_s:\n                del",
        "            if ticket_id in self._at_s:\n                del",
    ),
    Mutant("desk/deadlines", "detected after the instant", "self._heap[0][0] <= now_s", "self._heap[0][0] < now_s"),
    Mutant(
        "desk/deadlines",
        "advancing a deadline may postpone it",
        "if known_s is None or at_s < known_s:",
        "if True:",
    ),
    Mutant(
        "batching/strategy",
        "a static batch is dispatched half full",
        "return gathered.max_seats if gathered.full or overdue else 0",
        "return gathered.max_seats",
    ),
    Mutant(
        "batching/strategy", "static never flushes", "overdue = due_s is not None and now_s >= due_s", "overdue = False"
    ),
    Mutant(
        "batching/strategy",
        "a dynamic batch is dispatched after its window only",
        "if gathered.full or now_s >= self.due_s(gathered, now_s):",
        "if now_s >= self.due_s(gathered, now_s):",
    ),
    Mutant(
        "batching/strategy",
        "the urgent wait for the window, too",
        "return min(due_s, gathered.urgent_s + self.urgent_window_s)",
        "return due_s",
    ),
    Mutant(
        "batching/strategy",
        "the smallest preferred size",
        "return max((size for size in self.preferred",
        "return min((size for size in self.preferred",
    ),
    # engine death, hang and recovery
    Mutant(
        "desk/desk",
        "an unresponsive engine receives requests",
        "            self.mode.engine_is(EngineState.SILENT)\n",
        "            pass\n",
    ),
    Mutant(
        "desk/desk", "a request that has sent output is retried", "        elif not retryable:", "        elif False:"
    ),
    Mutant(
        "desk/desk",
        "a request that ran at two crashes in a row is retried again",
        "record.crash == self._lifecycle.crash_suspects.crashes - 1",
        "False",
    ),
    Mutant(
        "desk/lifecycle",
        "a recalled ticket is charged twice",
        "record.lane.order.correct(record.ticket, record.queue_class, -record.expected_tokens)",
        "pass",
    ),
    Mutant("desk/lifecycle", "no request becomes a suspect", "        self.crash_suspects.suspect(ticket.id)\n", ""),
    Mutant(
        "desk/desk",
        "clearing a suspect sets no timer",
        "due_s = shorter(due_s, lifecycle.crash_suspects.cleared_s)",
        "pass",
    ),
    Mutant("desk/desk", "the ramp sets no timer", "due_s = shorter(due_s, capacity.due_s(now_s))", "pass"),
    Mutant(
        "desk/admit",
        "arrivals pass the suspects",
        "mode.open and not self._lifecycle.crash_suspects.suspects",
        "mode.open",
    ),
    Mutant(
        "desk/mode",
        "the reason of a lost engine is hidden",
        "            self.closed = self.lost_why",
        "            self.closed = Reason.ENGINE_LOST",
    ),
    Mutant(
        "desk/lifecycle",
        "the queue time-out holds for a replay",
        "        record.queue_due_s = None if left is None else left[0]\n",
        "",
    ),
    Mutant("engine/crash_suspects", "two alone at a time", "None if self._alone is not None else ", ""),
    Mutant("engine/crash_suspects", "no suspect is ever cleared", "or now_s < self.cleared_s", "or True"),
    Mutant("engine/crash_suspects", "all suspects are cleared at once", "or now_s < self.cleared_s", "or False"),
    Mutant(
        "engine/restart_policy",
        "one restart attempt too many",
        "self.deaths_in_a_row > config.max_restarts",
        "self.deaths_in_a_row > config.max_restarts + 1",
    ),
    Mutant(
        "engine/restart_policy", "the pause does not double", "config.backoff_s * 2.0 **", "config.backoff_s * 1.0 **"
    ),
    Mutant(
        "engine/restart_policy", "the record is never clean", "now_s < self._back_s + config.healthy_after_s", "True"
    ),
    Mutant("engine/restart_policy", "out of memory does not close admission", "self.out_of_memory < 2", "True"),
    Mutant("engine/restart_policy", "a recycle is a death", "if cause is Cause.RECYCLE:", "if False:"),
    Mutant(
        "engine/watchdog",
        "a watchdog that was itself delayed reports a hang",
        "            self._reset(now_s)\n",
        "            pass\n",
    ),
    Mutant(
        "desk/capacity",
        "the lowest of the seat ratios is ignored",
        "int(limit * min(self._ratios.values()))",
        "int(limit * max(self._ratios.values()))",
    ),
    Mutant(
        "desk/desk",
        "any crash before is the last one",
        "record.crash == self._lifecycle.crash_suspects.crashes - 1",
        "record.crash is not None",
    ),
    Mutant(
        "desk/desk", "the least urgent suspect is retried first", "key=self._urgency, reverse=True", "key=self._urgency"
    ),
    Mutant(
        "desk/desk",
        "a lost engine becomes unresponsive",
        "        if self.engine is EngineState.UP:\n            self.mode.engine_is(EngineState.SILENT)",
        "        self.mode.engine_is(EngineState.SILENT)",
    ),
    Mutant(
        "desk/desk",
        "an unresponsive period begins a ramp",
        "if self.engine in (EngineState.RESTARTING, EngineState.LOST):",
        "if True:",
    ),
    Mutant(
        "desk/desk",
        "a warm-up begins no ramp",
        "        self._capacity.begin(now_s)\n        self._weigh(now_s)\n        self._begin",
        "        self._begin",
    ),
    Mutant(
        "desk/lifecycle",
        "a running deadline holds for a replay",
        "        self.deadlines.drop(record.ticket.id)\n        if record.queue_due_s",
        "        if record.queue_due_s",
    ),
    Mutant("desk/desk", "a switch keeps the old rungs", "fall_back(rungs)", "fall_back(self.mode.in_force)"),
    Mutant("desk/desk", "a switch to a shedding rung refuses none that waits", "if falls_back:", "if False:"),
    Mutant("desk/desk", "a switch under the same rungs refuses waiting tickets", "if falls_back:", "if True:"),
    Mutant("desk/desk", "a class that is shed waits on", "if Rung.SHED in self.mode.in_force:", "if False:"),
    Mutant("engine/crash_suspects", "the last suspect goes first", "iter(self.suspects)", "reversed(self.suspects)"),
    Mutant("engine/crash_suspects", "cleared after the instant", "now_s < self.cleared_s", "now_s <= self.cleared_s"),
    Mutant(
        "engine/restart_policy",
        "out of memory keeps all seats",
        "_OUT_OF_MEMORY_RATIO = 0.5",
        "_OUT_OF_MEMORY_RATIO = 1.0",
    ),
    Mutant(
        "engine/watchdog",
        "hung after half the time",
        "self.silent_s(now_s) > config.hang_after_s and not",
        "self.silent_s(now_s) > config.hang_after_s / 2 and not",
    ),
    Mutant("engine/watchdog", "a delayed watchdog forgets a hang", "if not self._hung and now_s", "if now_s"),
    Mutant("engine/watchdog", "a slow step is a hang", "any(one.computes(", "not all(one.alive("),
    Mutant(
        "engine/watchdog", "a slow step may last for ever", "max(config.hang_after_s, config.slow_step_after_s)", "1e9"
    ),
    Mutant("engine/watchdog", "an engine need not report", "all(one.alive(", "any(one.alive("),
    Mutant(
        "engine/watchdog",
        "a stopped worker counts as healthy",
        "if self.progress.stopped else 0.0",
        "if False else 0.0",
    ),
    Mutant(
        "desk/mode",
        "a resume ends every pause",
        "        self.holds -= {hold}\n",
        "        self.holds = frozenset()\n",
    ),
    Mutant("desk/mode", "the engine ends a drain", "        if hold is Hold.OPERATOR:\n", "        if True:\n"),
    Mutant(
        "desk/capacity",
        "a ramp never ends",
        "            self.moving = False\n",
        "            pass\n",
    ),
    # refusals
    Mutant(
        "desk/admit",
        "a request that may not wait evicts another",
        "bounds.evict and ticket.may_wait and",
        "bounds.evict and",
    ),
    Mutant(
        "desk/admit",
        "the infeasible wait",
        "if wait_s is not None and now_s + wait_s > due_s:",
        "if False:",
    ),
    Mutant(
        "desk/dispatch",
        "the only waiting request is shed",
        "        if not self._others_in_time(record):\n            return self._is_last_and_lost(record, now_s)\n",
        "",
    ),
    Mutant(
        "desk/dispatch",
        "late tickets are refused before the seats of the event are given",
        "            if scheduler.below_waits(record.queue_class):\n",
        "            if False:\n",
    ),
    Mutant("desk/dispatch", "a ticket that was passed over is refused", "if passed or not self", "if not self"),
    Mutant(
        "desk/scheduler",
        "the most urgent class passes the limit out of its turn",
        "if ticket is None or self.class_of(ticket) != self._urgent:",
        "if ticket is None:",
    ),
    Mutant("desk/capacity", "a fixed limit is passed", "if fixed or opening.held", "if opening.held"),
    Mutant("limits/model_fit", "a limit is stuck at a single seat", "if seats >= allowed + 1:", "if False:"),
    Mutant(
        "desk/retry_after",
        "all requests get the same Retry-After",
        "self._value = (self._value + _GOLDEN) % 1.0",
        "pass",
    ),
    Mutant(
        "request/outcome",
        "evicted counts as full",
        "Reason.EVICTED: Outcome.SHED",
        "Reason.EVICTED: Outcome.REJECTED_FULL",
    ),
    # limit
    Mutant("limits/governor", "grows over the SLO", "if breach and proposal > self._allowed:", "if False:"),
    Mutant("limits/governor", "grows without demand", "if not breach and not seen.limited:", "if False:"),
    Mutant(
        "limits/governor",
        "shadow is applied",
        "return self._fixed if self._settings.shadow else self.proposed(now_s)",
        "return self.proposed(now_s)",
    ),
    Mutant(
        "limits/governor",
        "stale signals are used",
        "self._stale = self._running and now_s",
        "self._stale = False and now_s",
    ),
    # the fallback ladder and its error rate
    Mutant(
        "fallback/ladder",
        "the lower threshold itself counts as recovered",
        "strong < config.leave_ratio",
        "strong <= config.leave_ratio",
    ),
    Mutant(
        "fallback/ladder",
        "the upper threshold itself does not count as trouble",
        "strong >= 1.0, strong",
        "strong > 1.0, strong",
    ),
    Mutant(
        "fallback/error_rate",
        "one ending more is needed",
        "if ended_since >= min_ended else",
        "if ended_since > min_ended else",
    ),
    Mutant(
        "fallback/error_rate",
        "the window is open at its start",
        ".at_s <= now_s - window_s",
        ".at_s < now_s - window_s",
    ),
    Mutant(
        "fallback/error_rate",
        "a reading too close to the last is kept",
        ">= window_s / _SAMPLES",
        ">= 0 * window_s / _SAMPLES",
    ),
    # the tie-break between waiting requests
    Mutant("queueing/wait_queue", "of two simultaneous arrivals the first is evicted", "-ticket.id)", "ticket.id)"),
    Mutant(
        "queueing/wait_queue",
        "the longest-waiting ticket is evicted",
        "-ticket.arrived_s, -ticket.id",
        "ticket.arrived_s, -ticket.id",
    ),
    # the plugin
    Mutant(
        "headway/http/admin/tokens",
        "a token of the least length is refused",
        "if not MIN_TOKEN_CHARS <= len(token)",
        "if not MIN_TOKEN_CHARS < len(token)",
    ),
    Mutant("headway/admission/prefix_hashes", "hashes have no key", "key=_KEY, ", ""),
    Mutant(
        "headway/http/inference/request_info",
        "every body is hashed",
        "        if preset.ordering.by_prefix:\n",
        "        if True:\n",
    ),
    Mutant("headway/batcher/batcher", "the thread outlives the batcher", "        self._process.close()\n", ""),
    Mutant(
        "headway/fallback/client",
        "a connection may take as long as an answer",
        ", connect=min(_CONNECT_S, within_s)",
        "",
    ),
    Mutant("headway/fallback/client", "a proxy of the environment is used", "trust_env=False", "trust_env=True"),
    Mutant(
        "headway/admission/gateway", "one prompt of many is counted", "max(1, seats * context.prompts)", "max(1, seats)"
    ),
    Mutant(
        "headway/admission/gateway",
        "an aborted request keeps its seats",
        "                self.link.calls.free(call, call.seats)\n",
        "                pass\n",
    ),
    Mutant(
        "headway/admission/gateway",
        "an abort frees the seats before the engine has confirmed it",
        "stopping=not finished",
        "stopping=False",
    ),
    Mutant(
        "headway/admission/gateway",
        "a request that is still being added frees its seat",
        "if call.open and call.shown:",
        "if call.open:",
    ),
    Mutant(
        "headway/admission/gateway",
        "the server's own requests are not counted",
        "        self.unseated += sequences\n        try:",
        "        try:",
    ),
    Mutant(
        "headway/admission/gateway",
        "a request that ended before the engine's report is not counted",
        "            self._end_late(call.seats)  # its last output has overtaken the report of its end\n",
        "            pass\n",
    ),
    Mutant("headway/admission/gateway", "a request may be one too wide", "sequences > most:", "sequences > most + 1:"),
    Mutant(
        "headway/admission/gateway",
        "a sequence that ends late is counted for ever",
        "        finally:\n            self.unseated -= sequences\n\n    async def _gone",
        "        finally:\n            pass\n\n    async def _gone",
    ),
    Mutant(
        "headway/admission/gateway",
        "a report that is older than an abort frees its seats",
        "if reported is None or reported <= self.sequences - sequences:",
        "if True:",
    ),
    Mutant(
        "headway/engine/pending_queries",
        "a confirmation counts for those that came after it was asked for",
        "        self._open, self._next = self._next, None\n",
        "        self._open = self._next\n",
    ),
    Mutant(
        "desk/lifecycle",
        "a cancelled request keeps no seat in the engine",
        "self._occupy(record, min(sequences, record.sequences), now_s)",
        "self._occupy(record, 0, now_s)",
    ),
    Mutant(
        "desk/lifecycle",
        "a cancelled request is never removed",
        "        if record.left and not record.sequences:\n",
        "        if False:\n",
    ),
    Mutant(
        "desk/lifecycle",
        "the figure omits requests wider than the limit",
        "        seats.overflow += ticket.seats - granted\n",
        "",
    ),
    # the diagnosis
    Mutant(
        "diagnosis/symptoms",
        "an objective does not count",
        "(one.ttft_slo_s, one.first_token_timeout_s)",
        "(one.first_token_timeout_s,)",
    ),
    Mutant(
        "diagnosis/symptoms", "a class's own errors do not count", ", *(one.error_share for one in facts.classes))", ")"
    ),
    Mutant("diagnosis/rules", "a missed objective is no matter", "if missed or errs(facts)", "if errs(facts)"),
    Mutant(
        "diagnosis/rules",
        "what is not known is well",
        "Bottleneck.UNKNOWN if errs(facts) or lacking(facts) else",
        "Bottleneck.UNKNOWN if errs(facts) else",
    ),
    Mutant("diagnosis/rules", "bursts look like too few seats", "used_ratio(facts) < _MOSTLY_FREE", "False"),
    Mutant(
        "diagnosis/rules",
        "slow tokens call for more seats",
        "if facts.limit_reason in BY_ENGINE or any(map(slow, facts.classes)):",
        "if facts.limit_reason in BY_ENGINE:",
    ),
    Mutant("diagnosis/rules", "a batch that gathers is a queue", "return not _gathers(facts) or", "return True or"),
    Mutant(
        "diagnosis/remedies",
        "another preset is proposed whatever the present one serves",
        "if _rank(best) < _rank(present) or",
        "if False and",
    ),
    Mutant(
        "headway/operator/diagnostics",
        "figures from before a switch count",
        "            self._samples.clear()\n",
        "            pass\n",
    ),
    Mutant(
        "headway/operator/diagnostics", "a severity falls at once", "if 0 < self._better < _BETTER_TIMES", "if False"
    ),
    Mutant(
        "headway/admission/gate",
        "answers that are not streamed wait for their first token",
        "if one.token_s is None and not one.begun)",
        "if one.token_s is None)",
    ),
    Mutant(
        "headway/operator/server_facts",
        "a cap looks like the preset's seats",
        "capped=recent[-1].capped",
        "capped=False",
    ),
    # a preset on trial
    Mutant("trial/trial", "a condition need not last", "if now_s - since_s >= condition.for_s:", "if True:"),
    Mutant(
        "trial/trial",
        "a look without a breach does not begin anew",
        "                self._since_s[place] = None\n",
        "",
    ),
    Mutant(
        "trial/trial",
        "what nobody confirms stays",
        'return TrialResult(TrialEnd.REVERTED, f"not confirmed',
        'return TrialResult(TrialEnd.KEPT, f"not confirmed',
    ),
    Mutant("trial/condition", "below is above", "if self.above else reading < self.value", "if True else False"),
    Mutant(
        "trial/condition", "what is not known is beyond", "        if reading is None:\n            return False\n", ""
    ),
    Mutant(
        "headway/recorder/served", "the backlog counts against a trial", "if at_s - delay_s >= arrived_s:", "if True:"
    ),
    Mutant("headway/recorder/served", "a request that waits does not count", "if came_s >= arrived_s:", "if False:"),
    Mutant(
        "headway/operator/trials",
        "a restart is held against a preset",
        "if not desk.engine_up or desk.state is not AdmissionState.OPEN:",
        "if False:",
    ),
    Mutant(
        "headway/operator/control",
        "a trial outlives another change",
        "overtaken = self.trials.end(overtaken_by(preset.name))",
        "overtaken = None",
    ),
    Mutant(
        "headway/operator/control",
        "a limit ordered for a time comes back for good",
        "(before, order) if order is None or order.ends_s is None else (order.back_to, order.beneath)",
        "(before, order)",
    ),
    Mutant(
        "headway/operator/forecast_errors",
        "a few requests are compared",
        "if self._served.first_tokens(from_s) < MIN_FIRST_TOKENS:",
        "if False:",
    ),
]


def mutate(folder: Path, mutant: Mutant) -> None:
    """Put a fault into a copy of the packages."""
    file = folder / mutant.path
    text = file.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.file}: {mutant.fault}: its text occurs {text.count(mutant.old)} times, not once")
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")


def photograph(still: Path) -> None:
    """Copy all that a run reads, so that changes of the tree during the run have no effect."""
    for part in (*(f"{folder}/{package}" for package, folder in PACKAGES.items()), "tests"):
        shutil.copytree(ROOT / part, still / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", *(f"{folder}/README.md" for folder in PACKAGES.values())):
        shutil.copy(ROOT / file, still / file)


def copy_packages(still: Path, folder: Path) -> None:
    """Put a copy of the packages side by side into a folder."""
    for package, stands_in in PACKAGES.items():
        shutil.copytree(still / stands_in / package, folder / package)


def run_tests(
    still: Path, tests: list[str], mutant: Mutant | None = None, limit_s: float = TIME_OUT_S
) -> tuple[bool, str]:
    """Run the tests on a copy of the unchanging tree with this fault. Returns whether they passed, and their last
    output."""
    with tempfile.TemporaryDirectory() as folder:
        copy_packages(still, Path(folder))
        (Path(folder) / "mutant_profile.py").write_text(PROFILE, encoding="utf-8")
        if mutant is not None:
            mutate(Path(folder), mutant)
        command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "mutant_profile", "-p", "no:cacheprovider"]
        environment = os.environ | {"PYTHONPATH": folder, "HEADWAY_LONG_TESTS": ""}
        try:
            done = subprocess.run(
                [*command, *tests], cwd=still, env=environment, capture_output=True, text=True, timeout=limit_s
            )
        except subprocess.TimeoutExpired:
            return False, "ran past its time"
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return done.returncode == 0, failed[0][:150] if failed else done.stdout.strip().splitlines()[-1][:150]


def limits_s(chosen: list[Mutant], still: Path) -> dict[str, float]:
    """How long the tests of each package may take with a fault. Ends the program where they fail without any."""
    found = {}
    for one in {one.path.parts[0]: one for one in chosen}.values():
        began_s = time.monotonic()
        passed, said = run_tests(still, one.tests)
        if not passed:
            raise SystemExit(f"the tests fail without any fault: {said}")
        found[one.path.parts[0]] = max(MIN_TIME_OUT_S, TIMES_THE_CLEAN_RUN * (time.monotonic() - began_s))
    return found


def say(line: str) -> None:
    """Print the progress, line by line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def survivors_of(chosen: list[Mutant], still: Path) -> list[Mutant]:
    """Try these faults, two at a time; those that no test noticed."""
    photograph(still)
    with tempfile.TemporaryDirectory() as folder:
        copy_packages(still, Path(folder))
        for one in chosen:  # before anything is run
            before = (Path(folder) / one.path).read_text(encoding="utf-8")
            mutate(Path(folder), one)
            (Path(folder) / one.path).write_text(before, encoding="utf-8")
    limit_s = limits_s(chosen, still)
    survivors = []
    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        tried = pool.map(lambda one: run_tests(still, one.tests, one, limit_s[one.path.parts[0]]), chosen)
        for number, (one, (passed, said)) in enumerate(zip(chosen, tried, strict=True), 1):
            survivors += [one] if passed else []
            fate = "SURVIVED" if passed else "caught"
            say(f"{number}/{len(chosen)} {fate} {one.file}: {one.fault}  [{said}]")
    return survivors


def main(words: list[str]) -> int:
    """Try the faults that match, or all; 0 when enough are caught and every survivor is explained."""
    chosen = [one for one in MUTANTS if not words or any(word in f"{one.file}: {one.fault}" for word in words)]
    with tempfile.TemporaryDirectory() as folder:
        survivors = survivors_of(chosen, Path(folder))
    caught = len(chosen) - len(survivors)
    say(f"{caught} of {len(chosen)} caught")
    for one in survivors:
        say(f"survived: {one.file}: {one.fault}: {one.survives or 'NOT EXPLAINED'}")
    return int(caught < MIN_CAUGHT * len(chosen) or any(not one.survives for one in survivors))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
