"""``headway keys``: makes, lists, revokes and replaces the API keys of a keys file."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from headway.keys import (
    BUDGET_FIELDS,
    KeysFileError,
    MadeKey,
    add_key,
    read_keys_file,
    revoke_key,
    rotate_key,
    set_budget,
    unknown_classes,
)
from headway.settings import Environment
from headway_policies.entitlement import Entitlement
from headway_tools.cli.output.keys_list import as_json, as_text, ends
from headway_tools.console import Exit, Parser, UsageError, add_command, add_json, open_catalogue, preset_dir

NAME = "keys"
KEYS_FILE = Environment.keys_file.name
SUMMARY = "Make, list, revoke and replace the API keys of a server, and set the terms of their tenants."
EPILOG = f"""\
examples:
  export {KEYS_FILE}=/etc/headway/keys.toml
  headway keys add --tenant chat --classes realtime,normal      a tenant and its first key
  headway keys add --tenant jobs --classes batch --share 0.5 --tokens-per-minute 200000
  headway keys list
  headway keys rotate chat-1 --grace 24h                        a new key; the old one works for another day
  headway keys revoke jobs-1                                    the key is refused from now on
  headway keys budget jobs tokens_per_day=2000000               further tokens are refused until the next day
  headway serve ./my-model                                      every request needs a key of the file

A tenant is a team, a customer or a program. Its keys share its terms: the classes that it may ask for, its share of the
engine beside other tenants of the same class, and its requests and tokens a minute. A request for a class that its
tenant does not have runs in the tenant's next less urgent class.

The file has the SHA-256 of each key, not the key: a key is shown once, by add and rotate, on standard output. A running
server reads a changed file within two seconds; a file with an error is refused, and the earlier keys stay in force.
Clients send a key as `Authorization: Bearer KEY` (OpenAI's) or `x-api-key: KEY` (Anthropic's).
"""
_ADD = """\
examples:
  headway keys add --tenant chat                                the next key of a tenant, or a new one with every class
  headway keys add --tenant chat --id laptop --expires 90d --note "Ada's laptop"
  headway keys add --tenant jobs --classes normal,batch --default-class batch --requests-per-minute 600
  headway keys add --tenant chat | wl-copy                      only the key goes to standard output

The options of the second group add a tenant that is not in the file. Change the terms of a known tenant in the file, in
its table [tenants.NAME], also its caps, such as caps.output_tokens = 4096. A missing file is made, with mode 0600.
exit codes: 0 done   2 wrong usage, or a file that cannot be read, changed or understood; then nothing is changed
"""
_LIST = f"""\
examples:
  headway keys list
  headway keys list --file ./keys.toml --json

The list shows ids; the file has no keys. An expired key is refused; `headway keys revoke` removes it from the file.
exit codes: 0 done   2 no file (--file, or {KEYS_FILE}), or one with errors: each is named
"""
_REVOKE = """\
examples:
  headway keys revoke jobs-1

A running server refuses the key within two seconds; requests that run already finish. The tenant stays in the file.
exit codes: 0 done   2 no such key, or a file that cannot be read, changed or understood; then nothing is changed
"""
_ROTATE = """\
examples:
  headway keys rotate chat-1                                    chat-1~2 is new; chat-1 works for another 24 hours
  headway keys rotate chat-1 --grace 7d                         for another week
  headway keys rotate chat-1 --grace 0s                         a leaked key: refused at once

The new key has the tenant, the note and the lifetime of the old key; only the new key goes to standard output. Give it
to the clients within the grace period. Then `headway keys revoke` removes the old key from the file.
exit codes: 0 done   2 no such key, or a file that cannot be read, changed or understood; then nothing is changed
"""

_BUDGET = f"""\
examples:
  headway keys budget jobs tokens_per_day=2000000 tokens_per_month=40000000
  headway keys budget jobs soft_ratio=0.8 borrow=true concurrency=16
  headway keys budget acme --organisation tokens_per_month=200000000
  headway keys budget jobs tokens_per_day=off                   no bound any more

Bounds: requests, tokens and seat_seconds, each _per_hour, _per_day and _per_month of the calendar (time_zone of the
file, else UTC), and concurrency, the requests in progress. From soft_ratio of a bound on, requests get the least urgent
class; borrow=true lets a tenant use the rest of the same bound of its organisation's other tenants, for requests or
tokens; count_only=true refuses nothing.
The server needs the accounting ({Environment.usage_db.name}). It reads the file within two seconds, and its audit names
the changed tenants. `headway usage` shows the use.
exit codes: 0 done   2 no such tenant, or a file that cannot be read, changed or understood; then nothing is changed
"""

_SPAN = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONGEST = timedelta(days=3650)
_GRACE = timedelta(hours=24)


def configure(parser: Parser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="add|list|revoke|rotate|budget", required=True)
    for name, add_options, run, summary, epilog in (
        ("add", _add_options, _add, "Make a key for a tenant, and add the tenant if it is new.", _ADD),
        ("list", add_json, _list, "List the tenants and the keys of the file.", _LIST),
        ("revoke", _add_id, _revoke, "Remove a key: the server refuses it from now on.", _REVOKE),
        ("rotate", _rotate_options, _rotate, "Replace a key: the old key expires soon.", _ROTATE),
        ("budget", _budget_options, _budget, "Change the budget of a tenant or an organisation.", _BUDGET),
    ):
        action = add_command(actions, name, summary, epilog)
        action.add_argument("--file", metavar="FILE", help=f"the keys file (default: ${KEYS_FILE})")
        add_options(action)
        action.set_defaults(run=_with_file(run))


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", required=True, metavar="NAME", help="the owner of the key")
    parser.add_argument("--id", metavar="ID", help="name of the key in logs (default: the tenant's, and a number)")
    parser.add_argument(
        "--expires", type=_lifetime, metavar="TIME", help="lifetime of the key: 90d, 24h (default: unlimited)"
    )
    parser.add_argument("--note", default="", metavar="TEXT", help="for yourself; only `headway keys list` shows it")
    tenant = parser.add_argument_group("for a new tenant")
    tenant.add_argument("--classes", type=_names, metavar="A,B", help="the allowed classes (default: every class)")
    tenant.add_argument("--default-class", metavar="A", help="class of requests that name none (default: the preset's)")
    tenant.add_argument("--share", type=float, metavar="N", help="weight among the tenants of a class (default: 1)")
    tenant.add_argument("--preset-dir", metavar="DIR", help="a folder with your own presets, whose classes count, too")
    for rate in ("requests", "tokens"):
        tenant.add_argument(
            f"--{rate}-per-minute", type=float, metavar="N", help=f"the most {rate} a minute (default: no bound)"
        )


def _add_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the id of a key, as `headway keys list` shows it")


def _rotate_options(parser: argparse.ArgumentParser) -> None:
    _add_id(parser)
    wanted = "how long the old key still works (default: 24h)"
    parser.add_argument("--grace", type=_time_span, default=_GRACE, metavar="TIME", help=wanted)


def _budget_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a tenant, or with --organisation an organisation")
    parser.add_argument("values", nargs="+", type=_field, metavar="FIELD=VALUE", help="a number, true, false, or off")
    parser.add_argument("--organisation", action="store_true", help="NAME is an organisation, added if missing")


def _with_file(run: Callable[[argparse.Namespace, str, datetime], None]) -> Callable[[argparse.Namespace], int]:
    """An action that is given the name of the file and the time; its errors are those of the command line."""

    def running(chosen: argparse.Namespace) -> int:
        path = chosen.file or Environment().keys_file
        if path is None:
            raise UsageError(f"no keys file; give --file FILE, or set {KEYS_FILE} as for the server")
        try:
            run(chosen, path, datetime.now(UTC).replace(microsecond=0))
        except KeysFileError as error:
            raise UsageError(str(error)) from None
        return Exit.OK

    return running


# ---------------------------------------------------------------------- the actions


def _add(chosen: argparse.Namespace, path: str, now: datetime) -> None:
    _check_classes(chosen, path)
    options = ("classes", "default_class", "share", "requests_per_minute", "tokens_per_minute")
    made = add_key(
        path,
        chosen.tenant,
        now=now,
        settings={name: value for name in options if (value := getattr(chosen, name)) is not None},
        key_id=chosen.id,
        lifetime=chosen.expires,
        note=chosen.note,
    )
    _tell(f"{path}: key {made.key.id} of tenant {made.key.tenant} added, {ends(made.key)}")
    _show_once(made)


def _check_classes(chosen: argparse.Namespace, path: str) -> None:
    """Raises UsageError for a class that no preset of this machine has."""
    if chosen.classes is None and chosen.default_class is None:
        return
    wanted = Entitlement(chosen.tenant, frozenset(chosen.classes or ()), chosen.default_class)
    catalogue = open_catalogue(preset_dir(chosen.preset_dir, os.environ))
    problems = list(unknown_classes([wanted], catalogue.class_names()))
    if problems:
        advice = "for the classes of your own presets add --preset-dir DIR"
        raise UsageError(f"{KeysFileError(path, problems)} ({advice})")


def _rotate(chosen: argparse.Namespace, path: str, now: datetime) -> None:
    made, old = rotate_key(path, chosen.id, now=now, grace=chosen.grace)
    _tell(f"{path}: key {made.key.id} of tenant {made.key.tenant} added, {ends(made.key)}; {old.id} {ends(old)}")
    _show_once(made)


def _revoke(chosen: argparse.Namespace, path: str, now: datetime) -> None:
    key = revoke_key(path, chosen.id)
    print(f"{path}: key {key.id} of tenant {key.tenant} revoked; a running server refuses it within two seconds")


def _budget(chosen: argparse.Namespace, path: str, now: datetime) -> None:
    section = "organisations" if chosen.organisation else "tenants"
    set_budget(path, section, chosen.name, dict(chosen.values))
    print(f"{path}: the budget of {chosen.name} is changed; a running server knows it within two seconds")


def _list(chosen: argparse.Namespace, path: str, now: datetime) -> None:
    read = read_keys_file(path)
    if read.warning is not None:
        _tell(f"warning: {read.warning}")
    print(json.dumps(as_json(read.ring, now), ensure_ascii=False) if chosen.json else as_text(read.ring, now))


def _show_once(made: MadeKey) -> None:
    """The key alone on standard output, so that it can be led elsewhere."""
    _tell("the key is shown this once; the file has only its SHA-256:")
    print(made.text, flush=True)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ---------------------------------------------------------------------- values of options


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _field(text: str) -> tuple[str, float | bool | None]:
    """A field of a budget and its value; None: off."""
    name, equals, value = text.partition("=")
    words: dict[str, bool | None] = {"true": True, "false": False, "off": None}
    try:
        number = words[value] if value in words else int(value) if value.isdecimal() else float(value)
    except ValueError:
        number, equals = None, ""
    if not equals or name not in BUDGET_FIELDS:
        fields = ", ".join(BUDGET_FIELDS)
        raise argparse.ArgumentTypeError(f"FIELD=VALUE is needed, with a field of {fields}, not {text[:80]!r}")
    return name, number


def _time_span(text: str) -> timedelta:
    found = _SPAN.fullmatch(text)
    span = timedelta(seconds=int(found[1]) * _UNITS_S[found[2]]) if found else None
    if span is None or span > _LONGEST:
        raise argparse.ArgumentTypeError(f"a time such as 30m, 24h or 90d is needed, ten years at most, not {text!r}")
    return span


def _lifetime(text: str) -> timedelta:
    span = _time_span(text)
    if not span:
        raise argparse.ArgumentTypeError(f"a time above 0 is needed, not {text!r}")
    return span
