"""A keys file read and checked: all its errors at once, or the keys and the tenants."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from headway.keys.key_ring import Key, KeyRing, is_key
from headway.keys.problems import KeysFileError, Problem, bounded
from headway.keys.schema import (
    FORMS,
    BudgetTable,
    CapsTable,
    KeysTable,
    KeyTable,
    OrganisationTable,
    TenantTable,
    read_time,
)
from headway.keys.toml_blocks import key_lines
from headway_policies.budgets import BOUNDS, Budget, Calendar, Owned, budgets_of
from headway_policies.entitlement import Entitlement, RequestCaps

MAX_FILE_BYTES = 2 * 1024 * 1024
MAX_LINE_CHARS = 2000
_MAX_PART_CHARS = 64
_MAX_KEY_CHARS = 8
_NO_KEY = hashlib.sha256(b"").hexdigest()
_SHORTEN = "remove the keys that have expired, or split the file between several servers"


def parse_keys(text: str, source: str) -> KeyRing:
    """The keys of a file; ``source`` names it in messages. Raises KeysFileError with everything that is wrong."""
    table = read_table(text, source)
    problems = list(_contradictions(table))
    try:
        content = KeysTable.model_validate(table)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        problems = [*(_problem(detail["loc"], detail["type"]) for detail in details), *problems]
    if problems:
        lines = key_lines(text)
        known = isinstance(table.get("keys"), list) and len(table["keys"]) == len(lines)
        raise KeysFileError(source, [_located(problem, lines if known else ()) for problem in bounded(problems)])
    organisations = _organisations(content)
    tenants = {
        name: _entitlement(name, tenant, Calendar(content.time_zone), organisations.get(tenant.organisation))
        for name, tenant in content.tenants.items()
    }
    return KeyRing(map(_key, content.keys), tenants)


def read_table(text: str, source: str) -> dict[str, Any]:
    """The text as TOML, of bounded size. Raises KeysFileError."""
    if len(text) > MAX_FILE_BYTES:
        raise KeysFileError(source, [Problem("", f"larger than {MAX_FILE_BYTES} bytes", _SHORTEN)])
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) > MAX_LINE_CHARS:
            what = f"line {number}: longer than {MAX_LINE_CHARS} characters"
            raise KeysFileError(source, [Problem("", what, "write each field on a line of its own")])
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number with more digits than Python reads
        what = "tables are nested too deeply" if isinstance(error, RecursionError) else str(error)
        what = " ".join(f"not valid TOML: {what}".split())
        raise KeysFileError(source, [Problem("", what, "correct the line; `headway keys` writes such files")]) from None


def _organisations(content: KeysTable) -> Mapping[str | None, Owned]:
    """The organisations that have tenants, with the budgets of these."""
    calendar, members = Calendar(content.time_zone), dict[str, dict[str, Budget]]()
    for name, tenant in content.tenants.items():
        if tenant.organisation is not None:
            budget = _budget(tenant.budget, calendar) or Budget(calendar=calendar)
            members.setdefault(tenant.organisation, {})[name] = budget
    found = {
        name: (_budget(table.budget, calendar), members.get(name)) for name, table in content.organisations.items()
    }
    return {name: Owned(name, budget, of) for name, (budget, of) in found.items() if budget is not None and of}


def _budget(table: Any, calendar: Calendar) -> Budget | None:
    """The budget of a BudgetTable; None where it bounds nothing."""
    limits = {bound: limit for bound in BOUNDS if (limit := getattr(table, bound.name)) is not None}
    if not limits and table.concurrency is None:
        return None
    return Budget(limits, table.concurrency, table.soft_ratio, table.borrow, table.count_only, calendar)


def _entitlement(name: str, table: TenantTable, calendar: Calendar, organisation: Owned | None) -> Entitlement:
    caps: Any = table.caps
    return Entitlement(
        name,
        None if table.classes is None else frozenset(table.classes),
        table.default_class,
        table.share,
        table.requests_per_minute,
        table.tokens_per_minute,
        RequestCaps(**{cap: getattr(caps, cap) for cap in CapsTable.model_fields}),
        budgets_of(name, _budget(table.budget, calendar), organisation),
    )


def _key(table: KeyTable) -> Key:
    return Key(table.id, bytes.fromhex(table.sha256), table.tenant, table.created, table.expires, table.note)


# ---------------------------------------------------------------------- errors of one field


def _problem(place: tuple[int | str, ...], kind: str) -> Problem:
    """The error of one field, at this place of the parsed file."""
    section, named, rest = place[0], place[1:2], place[2:]
    if kind == "extra_forbidden":
        allowed = ", ".join(_allowed(place))
        return Problem(_where(place), "unknown field", f"remove it, or correct its name; allowed here: {allowed}")
    if not rest or rest == ("[key]",):
        field = "" if section in ("tenants", "organisations") and named and rest else str(section)
        return _of_form(place, field)
    field = str(rest[0])
    if kind == "missing":
        return Problem(_where(place), "missing", f"add it: it {FORMS[field][0]}")
    return _of_form(place, field)


def _of_form(place: tuple[int | str, ...], field: str) -> Problem:
    what, remedy = FORMS[field]
    return Problem(_where(place), what, remedy)


def _allowed(place: tuple[int | str, ...]) -> list[str]:
    """The fields of the table that has an unknown one at this place."""
    if len(place) == 1:
        return list(KeysTable.model_fields)
    if place[0] == "keys":
        return list(KeyTable.model_fields)
    if len(place) > 3:
        return list((CapsTable if place[2] == "caps" else BudgetTable).model_fields)
    return list((TenantTable if place[0] == "tenants" else OrganisationTable).model_fields)


def _where(place: tuple[int | str, ...]) -> str:
    """The dotted key; list entries count from 1."""
    return ".".join(str(part + 1) if isinstance(part, int) else _shown(part) for part in place if part != "[key]")


def _shown(name: str) -> str:
    """A name of the file, short and printable; of a name that is a key only the beginning."""
    kept = name[: _MAX_KEY_CHARS if is_key(name) else _MAX_PART_CHARS]
    return kept if kept.isprintable() else repr(kept)


def _located(problem: Problem, lines: Sequence[int]) -> Problem:
    """The same error with the line of its [[keys]] table, where that is known."""
    section, _, rest = problem.where.partition(".")
    number = rest.partition(".")[0]
    if section != "keys" or not number.isdecimal() or int(number) > len(lines):
        return problem
    return Problem(problem.where, problem.what, problem.remedy, lines[int(number) - 1])


# ---------------------------------------------------------------------- errors between fields


def _contradictions(table: Mapping[str, Any]) -> Iterator[Problem]:
    """The contradictions between fields that may each be right, as far as they can be read."""
    tenants, keys, organisations = table.get("tenants", {}), table.get("keys", []), table.get("organisations", {})
    if isinstance(tenants, dict):
        for name, tenant in tenants.items():
            if isinstance(tenant, dict) and _default_is_not_allowed(tenant):
                yield _of_form(("tenants", name, "default_class"), "default_class")
            of = tenant.get("organisation") if isinstance(tenant, dict) else None
            if isinstance(of, str) and isinstance(organisations, dict) and of not in organisations:
                yield _of_form(("tenants", name, "organisation"), "organisation")
    if not isinstance(keys, list):
        return
    known: dict[tuple[str, str], int] = {}
    for place, key in enumerate(keys):
        if not isinstance(key, dict):
            continue
        if isinstance(key.get("tenant"), str) and isinstance(tenants, dict) and key["tenant"] not in tenants:
            yield _of_form(("keys", place, "tenant"), "tenant")
        if _ends_before_it_begins(key):
            yield _of_form(("keys", place, "expires"), "expires")
        for field in ("id", "sha256"):
            yield from _doubled(key, field, place, known)


def _doubled(key: Mapping[str, Any], field: str, place: int, known: dict[tuple[str, str], int]) -> Iterator[Problem]:
    """An id or a digest that an earlier key has too, or the digest of nothing."""
    value = key.get(field)
    if not isinstance(value, str):
        return
    value = value.lower() if field == "sha256" else value
    if value == _NO_KEY:
        yield Problem(_where(("keys", place, field)), "is the digest of an empty key", FORMS["sha256"][1])
    first = known.setdefault((field, value), place)
    if first != place:
        remedy = "give each key an id of its own" if field == "id" else "remove one of the two"
        yield Problem(_where(("keys", place, field)), f"the same as in keys.{first + 1}", remedy)


def _default_is_not_allowed(tenant: Mapping[str, Any]) -> bool:
    classes, default = tenant.get("classes"), tenant.get("default_class")
    return isinstance(classes, list) and isinstance(default, str) and default not in classes


def _ends_before_it_begins(key: Mapping[str, Any]) -> bool:
    try:
        return read_time(key.get("expires")) < read_time(key.get("created"))
    except ValueError:
        return False
