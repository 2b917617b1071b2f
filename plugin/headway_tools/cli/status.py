"""``headway status``: the state of a server, and the counts of each class."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time

from headway.api import AdminClient, ClassStatus, EngineStatus, Status
from headway.api.schema import Diagnosis, InstanceStatus, OperatorStop, PrefixStatus, Remedy, StepsStatus
from headway_policies.diagnosis import lowered_words
from headway_policies.preset import SeatBounds
from headway_policies.units import duration
from headway_tools.console import Exit, add_json, add_url, connect, seconds, table

NAME = "status"
SUMMARY = "Show what a server is doing: readiness, preset, limit, and the queue of each class."
EPILOG = """\
examples:
  headway status
  headway status --watch 2                          again every two seconds, until Ctrl-C
  headway status --json | python3 -m json.tool      everything, for scripts
  until headway status >/dev/null 2>&1; do sleep 1; done      wait until the server is ready

Needs the admin token of the server (HEADWAY_ADMIN_TOKEN or HEADWAY_ADMIN_TOKEN_FILE).
exit codes: 0 ready   1 not ready   3 not reachable   4 token missing or wrong
"""
_MOST_INSTANCES = 16


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    add_json(parser)
    parser.add_argument("--watch", type=seconds, metavar="S", help="repeat every S seconds")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Print the status; 0 if the server is ready, else 1."""
    with connect(chosen.url, os.environ) as client:
        while True:
            code = _show(client, as_json=chosen.json)
            if chosen.watch is None:
                return code
            time.sleep(chosen.watch)
            if sys.stdout.isatty() and not chosen.json:
                print("\x1b[2J\x1b[H", end="")


def _show(client: AdminClient, *, as_json: bool) -> int:
    status = client.status()
    print(status.model_dump_json() if as_json else text(status, client.url), flush=True)
    return Exit.OK if status.ready else Exit.FAILED


def text(status: Status, url: str) -> str:
    """The status as text."""
    readiness = "ready" if status.ready else f"NOT READY: {', '.join(status.reasons) or 'no reason given'}"
    facts = [
        ("server", f"{url}  (headway {status.version}, up {duration(status.uptime_s)})"),
        ("model", status.model or "-"),
        ("state", f"{readiness}; {_admission(status)}{_away(status)}"),
        *_stopped(status.stopped),
        *_diagnosis(status.diagnosis),
        ("preset", f"{status.preset.name}  (revision {status.preset.revision})"),
        *(("", line) for line in status.preset.no_effect),
        ("seats", _seats(status) + _set(status)),
        *_caps(status),
        *_instances(status),
        *_objectives(status),
        ("requests", f"{status.queued} queued, {status.in_flight} in flight"),
        *_lowered(status),
    ]
    if status.engine.dtype:
        facts.append(("engine", _engine(status.engine)))
    if (ratio := status.warmup.first_token_ratio) is not None:
        facts.append(
            ("warm-up", f"the first token of a request alone took {ratio:.1f} times as long before it as after")
        )
    if status.engine.steps is not None:
        facts.append(("steps", _steps(status.engine.steps)))
    if status.ordering.prefix is not None:
        facts.append(("prefixes", _prefixes(status.ordering.prefix)))
    if suspects := status.engine.crash_suspects:
        facts.append(
            ("retries", f"{suspects} that were running when the engine died: one at a time, before all others")
        )
    lines = [f"{name:<9} {value}" for name, value in facts]
    head = ["class", "queued", "oldest wait", "in flight", "arrived", "outcomes"]
    return "\n".join([*lines, "", table(head, [_row(state) for state in _by_urgency(status)], indent="")])


def _stopped(stop: OperatorStop | None) -> list[tuple[str, str]]:
    """The command that blocks dispatch, since when and by whom, and what ends it."""
    if stop is None:
        return []
    why = f": {stop.reason}" if stop.reason else ""
    end = "" if stop.left_s is None else f"; ends by itself in {duration(stop.left_s)}"
    return [("stopped", f"{stop.state} for {duration(stop.for_s)} by {stop.actor}{why}{end}  [headway resume]")]


def _diagnosis(found: Diagnosis | None) -> list[tuple[str, str]]:
    """The bottleneck of the server and the remedies, the best first."""
    if found is None:
        return []
    helps = [("helps" if place == 0 else "", remedy_line(remedy)) for place, remedy in enumerate(found.remedies)]
    wrong = [("wrong" if place == 0 else "", text) for place, text in enumerate(found.symptoms)]
    return [("diagnosis", f"{found.severity.upper()}: {found.statement}"), *wrong, *helps]


def remedy_line(remedy: Remedy) -> str:
    """A remedy, its cost and its command."""
    return f"{remedy.action}; costs: {remedy.cost}" + (f"  [{remedy.command}]" if remedy.command else "")


def _engine(engine: EngineStatus) -> str:
    """The facts that decide how many sequences its memory holds."""
    quantised = "" if engine.quantization in ("", "none") else f", weights quantised ({engine.quantization})"
    length = "" if engine.max_model_len is None else f", sequences of at most {engine.max_model_len} tokens"
    room = "" if engine.kv_cache_tokens is None else f", KV cache for {engine.kv_cache_tokens} tokens"
    return f"{engine.dtype}{quantised}, KV cache {engine.kv_cache_dtype}{length}{room}"


def _steps(steps: StepsStatus) -> str:
    """The part of the steps that prompts got in the last half minute, and the longest time they were held back."""
    counts = f"{steps.planned} with prompts planned, {steps.held} postponed tokens"
    if steps.prefill_share is None or steps.target_share is None:
        return counts
    longest = f", for up to {duration(steps.longest_held_s)}" if steps.longest_held_s else ""
    share = f"{steps.prefill_share:.0%} of their time for prompts (target {steps.target_share:.0%})"
    return f"{counts}; lately {share}{longest}"


def _admission(status: Status) -> str:
    """The present treatment of requests."""
    if status.state == "draining":
        return "new requests are refused, running ones finish"
    if status.engine.state == "lost":
        return "requests are refused"
    if status.state == "paused" or status.engine.state in ("silent", "restarting"):
        return "requests wait in the queue"
    return "requests are dispatched"


def _away(status: Status) -> str:
    """The number of servers down behind a router; empty for none."""
    down = sum(not instance.up for instance in status.instances)
    return f"; {down} of {len(status.instances)} instances DOWN" if down else ""


def _seats(status: Status) -> str:
    """Taken and allowed seats; after a switch to fewer, those above the limit are not filled again."""
    taken, limit = status.seats_taken, status.limit
    if taken <= limit.live:
        return f"{taken} taken of {limit.live} (ceiling {limit.ceiling})"
    return (
        f"{taken} taken, the limit is {limit.live}: {taken - limit.live} above it until they finish "
        f"(ceiling {limit.ceiling})"
    )


def _caps(status: Status) -> list[tuple[str, str]]:
    """The bounds of the seats on this engine, as far as they are known."""
    limit = status.limit
    bounds = SeatBounds(limit.kv_seats, limit.kv_seats_tokens, limit.kv_seats_recorded, limit.knee_seats)
    return [("bounds", "; ".join(bounds.words))] if bounds.words else []


def _instances(status: Status) -> list[tuple[str, str]]:
    """The servers behind a router: how many are up, then each, those that are down first."""
    found = sorted(status.instances, key=lambda instance: instance.up)
    if not found:
        return []
    up = sum(instance.up for instance in found)
    more = [("", f"and {len(found) - _MOST_INSTANCES} more")] if len(found) > _MOST_INSTANCES else []
    shown = [("", _instance(instance)) for instance in found[:_MOST_INSTANCES]]
    return [("instances", f"{up} of {len(found)} up"), *shown, *more]


def _instance(instance: InstanceStatus) -> str:
    state = "up" if instance.up else "DOWN"
    others = f" and {instance.others} of other clients" if instance.others else ""
    assumed = "" if instance.says_seats else " assumed, as it has not said its own"
    maker = f"; {instance.maker}" if instance.maker else ""
    lacks = f"; not known: {', '.join(instance.lacks)}" if instance.up and instance.lacks else ""
    seats = f"{instance.seats} seats{assumed}" if instance.up or instance.says_seats else "seats not known"
    return f"{instance.name}  {state}{maker}; {instance.running} running{others}, {seats}{lacks}"


def _objectives(status: Status) -> list[tuple[str, str]]:
    """The objectives of each class on this engine, the most urgent first, with objectives missed even alone."""
    known = [(state.name, state.objectives) for state in _by_urgency(status) if state.objectives is not None]
    said = [f"{name}: {now.words}" for name, now in known if now.words]
    missed = [sentence for _, now in known for sentence in now.missed_alone]
    head = ("objective", "note")
    return [
        (name if place == 0 else "", line)
        for name, lines in zip(head, (said, missed), strict=True)
        for place, line in enumerate(lines)
    ]


def _lowered(status: Status) -> list[tuple[str, str]]:
    """The requests since the start that asked for a class above the rights of their key."""
    arrived = sum(state.arrived for state in status.classes)
    return [("classes", text) for text in lowered_words({row.name: row.lowered for row in status.classes}, arrived)]


def _by_urgency(status: Status) -> list[ClassStatus]:
    return sorted(
        status.classes, key=lambda state: -math.inf if state.priority is None else state.priority, reverse=True
    )


def _set(status: Status) -> str:
    """A limit by command, its author and its end."""
    limit = status.limit.ordered
    if limit is None:
        return ""
    end = "until the next switch" if limit.left_s is None else f"for another {duration(limit.left_s)}"
    by = f" by {limit.actor}" if limit.actor else ""
    why = f" ({limit.reason})" if limit.reason else ""
    return f"; {limit.seats} set{by}{why} in place of the preset's, {end}"


def _prefixes(prefix: PrefixStatus) -> str:
    """The share of the prompts that the engine finds in its prefix cache."""
    found, expected = ("-" if ratio is None else f"{ratio:.0%}" for ratio in (prefix.hit_ratio, prefix.expected_ratio))
    return f"{found} of the prompt tokens found in the prefix cache, {expected} expected"


def _row(state: ClassStatus) -> list[object]:
    seen = [f"{name} {count}" for name, count in state.outcomes.items() if count]
    wait = duration(state.oldest_wait_s) if state.queued else "-"
    return [state.name, state.queued, wait, state.in_flight, state.arrived, ", ".join(seen) or "-"]
