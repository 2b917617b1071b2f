"""``headway preset use``, ``keep`` and ``undo``: change the preset of a running server, for good or on trial."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TypedDict

from headway.api import AdminClient, CurrentPreset, InvalidCommandError, StaleError, Switched, Trial
from headway.api.schema import ServedByClass, ServedFigures
from headway_policies.close_name import did_you_mean
from headway_policies.trial import FIGURES, Condition, ConditionError
from headway_policies.units import duration
from headway_tools.cli.control.command_options import actor_of, add_command_options
from headway_tools.console import (
    CliError,
    Exit,
    FailedError,
    UsageError,
    as_cli_error,
    connect,
    find_preset,
    is_file_name,
    open_catalogue,
    setting_text,
    table,
    time_span,
    whole,
)

USE_SUMMARY = "Switch a running server to another preset, for good or on trial."
USE_EPILOG = f"""\
examples:
  headway preset use throughput --reason "nightly jobs"
  headway preset use latency --url http://10.0.0.5:8000
  headway preset use latency --revert-after 10m --watch
  headway preset use throughput --revert-if 'realtime.ttft_p95_s > 1 for 30s' --revert-if 'error_ratio > 0.05'

On trial the server itself puts the earlier preset in force again: after --revert-after, unless `headway preset keep`
came before; or as soon as a condition has been true for its time (default: 30 s). With conditions alone the trial ends
after ten minutes, and the preset stays. The server decides, also without this terminal.
A condition: [CLASS.]FIGURE > NUMBER [for SECONDS s], over the last ten seconds, of requests since the switch.
Figures: {", ".join(FIGURES[:4])},
         {", ".join(FIGURES[4:7])}, {", ".join(FIGURES[7:9])},
         {", ".join(FIGURES[9:])}

A server knows the bundled presets and the presets that it read from --preset-dir at its start. Files are not sent to
the server: a preset may name Python code.

Switching to the preset in force changes nothing: no new revision, no audit line, no trial.
exit codes: 0 switched, or in force already; with --watch: kept   1 refused, or the preset was changed meanwhile
            2 unknown preset, or a condition that cannot be read   3 not reachable   4 token missing or wrong
            5 with --watch: taken back
"""
KEEP_SUMMARY = "End the trial of the preset in force, and keep the preset."
KEEP_EPILOG = """\
examples:
  headway preset keep
  headway preset keep --reason "p95 is fine"

exit codes: 0 kept   1 no preset is on trial, or it was changed meanwhile   3 not reachable   4 token missing or wrong
"""
UNDO_SUMMARY = "Put an earlier revision of a running server in force again."
UNDO_EPILOG = """\
examples:
  headway preset undo                               the settings before the last change
  headway preset undo 3                             the settings of revision 3

The earlier settings become a new revision, so that an undo can be undone. `headway status` shows the revision, the
server's audit log all changes.
exit codes: 0 done, or in force already   1 refused, or the preset was changed meanwhile   2 no such revision
            3 not reachable   4 token missing or wrong
"""
_LOOK_EVERY_S = 1.0
_FROM_FILES = "a server reads files at its start, from the folder of --preset-dir or HEADWAY_PRESET_DIR"

#: The figures of each class in a watch.
_SHOWN = ("ttft_p50_s", "ttft_p95_s", "inter_token_p95_s", "completed_ratio", "error_ratio", "tokens_per_s")


class Said(TypedDict):
    """The operator's name and reason for the audit log."""

    reason: str | None
    actor: str | None


def configure_use(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a preset of the server")
    add_command_options(parser)
    trial = parser.add_argument_group("on trial")
    trial.add_argument(
        "--revert-after",
        type=time_span,
        metavar="TIME",
        help="time after which the server goes back (90s, 10m, 1h), unless the preset is kept",
    )
    trial.add_argument(
        "--revert-if",
        action="append",
        default=[],
        type=_condition,
        metavar="CONDITION",
        help="go back when the condition is met",
    )
    trial.add_argument("--watch", action="store_true", help="show the figures before and now until the trial has ended")
    parser.set_defaults(run=_use)


def configure_keep(parser: argparse.ArgumentParser) -> None:
    add_command_options(parser)
    parser.set_defaults(run=_keep)


def configure_undo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "revision",
        nargs="?",
        type=partial(whole, most=10**15, what="a revision"),
        metavar="REVISION",
        help="(default: the one before)",
    )
    add_command_options(parser)
    parser.set_defaults(run=_undo)


def unknown_preset(name: str, names: list[str]) -> str:
    """The sentence for a preset that a server does not know."""
    close = did_you_mean(name, names)
    return f"the server knows no preset {name!r}; known presets: {', '.join(names)}{close} ({_FROM_FILES})"


# ---------------------------------------------------------------------- the actions


def _use(chosen: argparse.Namespace) -> int:
    after_s, conditions = chosen.revert_after, [str(condition) for condition in chosen.revert_if]
    if chosen.watch and after_s is None and not conditions:
        raise UsageError("--watch shows a trial: give --revert-after or --revert-if too")
    if is_file_name(chosen.name):
        raise _not_sent(chosen.name)

    def switch(client: AdminClient, current: CurrentPreset, said: Said) -> Switched:
        try:
            return client.switch(
                chosen.name, revision=current.revision, revert_after_s=after_s, revert_if=conditions, **said
            )
        except InvalidCommandError as error:
            raise _not_accepted(client, chosen.name, error) from None

    with connect(chosen.url, os.environ) as client:
        done = _change(client, chosen, switch)
        if not chosen.watch or done.trial is None:
            return Exit.OK
        return _watch(client, done.trial.revision, as_json=chosen.json)


def _undo(chosen: argparse.Namespace) -> int:
    def undo(client: AdminClient, current: CurrentPreset, said: Said) -> Switched:
        try:
            return client.undo(chosen.revision, revision=current.revision, **said)
        except InvalidCommandError as error:
            raise UsageError(str(error)) from None

    with connect(chosen.url, os.environ) as client:
        _change(client, chosen, undo)
    return Exit.OK


def _keep(chosen: argparse.Namespace) -> int:
    with connect(chosen.url, os.environ) as client:
        current = client.preset()
        try:
            kept = client.keep(revision=current.revision, **_said(chosen))
        except StaleError:
            raise FailedError(_overtaken(client, current.name)) from None
    print(kept.model_dump_json() if chosen.json else f"{kept.name} stays  (revision {kept.revision})")
    return Exit.OK


def _change(
    client: AdminClient,
    chosen: argparse.Namespace,
    change: Callable[[AdminClient, CurrentPreset, Said], Switched],
) -> Switched:
    """Change the preset at the revision that is in force now, and print what changed."""
    current = client.preset()
    try:
        done = change(client, current, _said(chosen))
    except StaleError:
        raise FailedError(_overtaken(client, current.name)) from None
    changed = done.revision != current.revision
    print(done.model_dump_json() if chosen.json else _switch_text(done, changed=changed), flush=True)
    return done


# ---------------------------------------------------------------------- the watch


def _watch(client: AdminClient, revision: int, *, as_json: bool) -> int:
    """Show the trial of a revision until it has ended; the exit code says how."""
    screen = sys.stdout if sys.stdout.isatty() and not as_json else None
    lines = 0
    while True:
        trial = client.trial()
        if trial is None or trial.revision != revision:
            raise FailedError("another trial has begun meanwhile; `headway preset keep` and `undo` act on that one")
        if screen is not None:
            text = _trial_text(trial)
            up = f"\x1b[{lines}A\x1b[J" if lines else ""
            print(f"{up}{text}", file=screen, flush=True)
            lines = text.count("\n") + 1
        if trial.end is not None:
            break
        time.sleep(_LOOK_EVERY_S)
    if as_json:
        print(trial.model_dump_json())
    elif screen is None:
        print(_trial_text(trial))
    return {"kept": Exit.OK, "reverted": Exit.REVERTED}.get(trial.end, Exit.FAILED)


def _trial_text(trial: Trial) -> str:
    """A trial as text: how it stands, its conditions, and the figures before and now."""
    if trial.end is not None:
        head = f"{trial.name}: {trial.end}, {trial.why}"
        if trial.end == "reverted":
            head += f"; in force again: {trial.back_to}"
    else:
        then = "goes back to" if trial.revert_after_s is not None else "stays, or goes back to"
        head = f"{trial.name} is on trial, {then} {trial.back_to} in {duration(trial.left_s or 0.0)} at the latest"
    lines = [head]
    for condition in trial.conditions:
        now = "not known" if condition.reading is None else _read(condition.text, condition.reading)
        held = f", true for {duration(condition.held_s)}" if condition.held_s else ""
        lines.append(f"  goes back if {condition.text}  (now {now}{held})")
    if trial.before is not None:
        lines.append(_compared(trial.before, trial.now))
    return "\n".join(lines)


def _read(text: str, reading: float) -> str:
    try:
        return Condition.parse(text).words(reading)
    except ConditionError:  # of a newer server
        return f"{reading:.4g}"


def _compared(before: ServedByClass, now: ServedByClass | None) -> str:
    """The figures of each class before the switch and now."""
    seen = ServedByClass(all=ServedFigures(), classes={}) if now is None else now
    names = sorted({*before.classes, *seen.classes})
    pairs: list[tuple[str, ServedFigures | None, ServedFigures | None]] = [("all", before.all, seen.all)]
    pairs += [(class_name, before.classes.get(class_name), seen.classes.get(class_name)) for class_name in names]
    rows = []
    for name, earlier, later in pairs:
        shown = [f"{_figure(earlier, figure)} -> {_figure(later, figure)}" for figure in _SHOWN]
        rows.append([name, *shown])
    return table(["class", *_SHOWN], rows)


def _figure(figures: ServedFigures | None, name: str) -> str:
    value = None if figures is None else getattr(figures, name)
    return "-" if value is None else f"{value:.3g}"


# ---------------------------------------------------------------------- words


def _said(chosen: argparse.Namespace) -> Said:
    """The reason and the name for the audit log."""
    return Said(reason=chosen.reason, actor=actor_of(chosen))


def _condition(text: str) -> Condition:
    try:
        return Condition.parse(text)
    except ConditionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _overtaken(client: AdminClient, seen: str) -> str:
    now = client.preset()
    return (
        f"the preset {seen} was changed meanwhile; in force now: {now.name} (revision {now.revision}). "
        "Nothing was changed; run it again if you still want to switch"
    )


def _not_accepted(client: AdminClient, name: str, error: InvalidCommandError) -> CliError:
    names = [entry.name for entry in client.presets().presets]
    return as_cli_error(error) if name in names else UsageError(unknown_preset(name, names))


def _not_sent(file: str) -> UsageError:
    """The error for a file in place of a name: a preset may name Python code, which the server would import."""
    name = find_preset(file, open_catalogue(None)).preset.name
    advice = f"copy it there, start the server again, and then: headway preset use {name}"
    return UsageError(f"a file is not sent to a server: {_FROM_FILES}; {advice}")


def _switch_text(switched: Switched, *, changed: bool) -> str:
    if not changed:
        return f"{switched.name} is already in force, nothing changed  (revision {switched.revision})"
    head = f"{switched.previous} -> {switched.name}  (revision {switched.revision})"
    if not switched.engine_limit_confirmed:
        head += "\n  the engine has not confirmed its new limit"
    head += "".join(f"\n  warning: {warning}" for warning in switched.warnings)
    if not switched.changes:
        head += "\n  no setting differs"
    else:
        rows = [
            [change.setting, setting_text(change.before), setting_text(change.after)] for change in switched.changes
        ]
        head += f"\n{table(['setting', 'before', 'after'], rows)}"
    if switched.trial is not None and switched.trial.left_s is not None:
        left = duration(switched.trial.left_s)
        head += f"\n  on trial for {left}: `headway preset keep` keeps it, `headway preset undo` ends it now"
    return head
