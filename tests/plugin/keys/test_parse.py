"""The text of a keys file: what it says, and every error with its place, its cause and its remedy."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.keys import KeyRing, KeysFileError, Problem
from headway.keys.key_ring import new_key
from headway.keys.parse import MAX_FILE_BYTES, MAX_LINE_CHARS, parse_keys
from headway.keys.problems import MAX_PROBLEMS
from headway.keys.schema import FORMS, MAX_KEYS
from headway_policies.budgets import Bound, Budget, Calendar, Owned, Span, Unit
from headway_policies.entitlement import Entitlement, RequestCaps

#: In the form of a key, and the same in each process that collects these tests.
A_KEY = f"hw-{'Zz9_-' * 8}xyz"

DIGEST = "0f" * 32

WHOLE = f"""\
[tenants.chat]
classes = ["realtime", "normal"]
default_class = "normal"
share = 2
requests_per_minute = 600
tokens_per_minute = 1e6

[tenants.chat.caps]
output_tokens = 4096
sequences = 0

[tenants."jobs.night"]

[[keys]]
id = "chat-1"
sha256 = "{DIGEST.upper()}"
tenant = "chat"
created = "2026-01-31T12:00:00Z"

[[keys]]
id = "jobs~2"
sha256 = "{"1e" * 32}"
tenant = "jobs.night"
created = 2026-01-31T12:00:00+02:00
expires = "2026-03-01T00:00:00.5-01:00"
note = "the nightly run"
"""


def parsed(text: str) -> KeyRing:
    return parse_keys(text, "keys.toml")


def problems(text: str) -> tuple[Problem, ...]:
    with pytest.raises(KeysFileError) as raised:
        parsed(text)
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith("keys.toml: ")
    return raised.value.problems


def test_a_whole_file_is_read() -> None:
    """Every field, TOML's own times too."""
    ring = parsed(WHOLE)
    caps = RequestCaps(output_tokens=4096, sequences=0)
    assert dict(ring.tenants) == {
        "chat": Entitlement("chat", frozenset({"realtime", "normal"}), "normal", 2.0, 600.0, 1e6, caps),
        "jobs.night": Entitlement("jobs.night"),
    }
    first, second = ring.keys
    assert (first.id, first.digest, first.tenant) == ("chat-1", bytes.fromhex(DIGEST), "chat")
    assert (first.created, first.expires, first.note) == (datetime(2026, 1, 31, 12, tzinfo=UTC), None, "")
    assert second.created == datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))
    assert second.expires == datetime(2026, 3, 1, 1, 0, 0, 500_000, tzinfo=UTC)
    assert second.note == "the nightly run"


def test_an_empty_file_has_no_keys() -> None:
    """Then every request is refused."""
    ring = parsed("# nothing yet\n")
    assert (ring.keys, dict(ring.tenants)) == ((), {})


def test_every_cap_can_be_set() -> None:
    """Whichever fields there are."""
    names = [one.name for one in fields(RequestCaps)]
    ring = parsed("[tenants.a.caps]\n" + "\n".join(f"{name} = {place}" for place, name in enumerate(names)))
    assert ring.tenants["a"].caps == RequestCaps(*range(len(names)))


BUDGETS = """\
time_zone = "Europe/Berlin"

[organisations.acme]
budget = { tokens_per_month = 1e9 }

[tenants.a]
organisation = "acme"
budget.tokens_per_day = 2_000_000
budget.requests_per_hour = 600
budget.concurrency = 8
budget.soft_ratio = 0.8
budget.borrow = true

[tenants.b]
organisation = "acme"

[tenants.c]
budget.seat_seconds_per_day = 3600
budget.count_only = true
"""


def test_budgets_are_those_of_the_tenant_and_of_its_organisation() -> None:
    """In the time zone of the file; an organisation knows the budgets of its tenants."""
    tenants, berlin = parsed(BUDGETS).tenants, Calendar(ZoneInfo("Europe/Berlin"))
    a, acme = tenants["a"].budgets
    limits = {Bound(Unit.TOKENS, Span.DAY): 2e6, Bound(Unit.REQUESTS, Span.HOUR): 600.0}
    assert a == Owned("a", Budget(limits, 8, 0.8, borrows=True, calendar=berlin))
    assert acme.budget == Budget({Bound(Unit.TOKENS, Span.MONTH): 1e9}, calendar=berlin)
    assert dict(acme.members) == {"a": a.budget, "b": Budget(calendar=berlin)}
    assert [owner.label for owner in tenants["b"].budgets] == ["tenant b", "organisation acme"]
    (c,) = tenants["c"].budgets
    assert c.budget == Budget({Bound(Unit.SEAT_SECONDS, Span.DAY): 3600.0}, counts_only=True, calendar=berlin)


def test_without_a_budget_there_is_none() -> None:
    """Nor with an organisation that bounds nothing."""
    ring = parsed("[organisations.acme]\n[tenants.a]\norganisation = 'acme'\nbudget.soft_ratio = 0.5\n")
    assert ring.tenants["a"].budgets == ()
    assert not ring.has_budgets
    assert parsed(BUDGETS).has_budgets


KEY = f'id = "k"\nsha256 = "{DIGEST}"\ntenant = "a"\ncreated = "2026-01-31T12:00:00Z"\n'


def with_key(field: str, value: str | None) -> str:
    """A file whose one key has another value of a field; None: none."""
    lines = [line for line in KEY.splitlines() if not line.startswith(field)]
    return "[tenants.a]\n[[keys]]\n" + "\n".join([*lines, *([] if value is None else [f"{field} = {value}"])])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("id", value) for value in ("7", '""', '"a b"', '"-a"', f'"{"a" * 65}"', '"a\\n"', f'"{A_KEY}"')],
        *[("sha256", value) for value in ("7", '""', f'"{"0f" * 31}"', f'"{"0f" * 33}"', f'"{"0g" * 32}"')],
        *[("tenant", value) for value in ("7", '""', '"b"', "[]")],
        *[("created", value) for value in ("7", '""', '"yesterday"', "2026-01-31", "2026-01-31T12:00:00", "true")],
        *[("expires", value) for value in ("7", '"2026-02-31T12:00:00Z"', '"2026-01-31T11:59:59Z"', "12:00:00")],
        *[("note", value) for value in ("7", f'"{"a" * 201}"', '"two\\nlines"', '"\\u001b[31m"')],
    ],
)
def test_a_wrong_value_of_a_key_is_named_with_its_line_and_its_remedy(field: str, value: str) -> None:
    """One error, at this field of the first key, in the words of the field, and without the value."""
    what, remedy = FORMS[field]
    assert problems(with_key(field, value)) == (Problem(f"keys.1.{field}", what, remedy, line=2),)


@pytest.mark.parametrize("field", ["id", "sha256", "tenant", "created"])
def test_a_missing_field_is_named(field: str) -> None:
    """With what it must be."""
    (problem,) = problems(with_key(field, None))
    assert (problem.where, problem.what, problem.line) == (f"keys.1.{field}", "missing", 2)
    assert FORMS[field][0] in problem.remedy


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ('classes = "normal"', "classes"),
        ('classes = ["a b"]', "classes.1"),
        ("classes = ['a', 7]", "classes.2"),
        (f"classes = {['a'] * 65}", "classes"),
        ("default_class = 7", "default_class"),
        ('classes = ["normal"]\ndefault_class = "batch"', "default_class"),
        ("share = 0", "share"),
        ("share = 101", "share"),
        ("share = nan", "share"),
        ("share = true", "share"),
        ('share = "1"', "share"),
        ("requests_per_minute = 0.5", "requests_per_minute"),
        ("requests_per_minute = inf", "requests_per_minute"),
        ("tokens_per_minute = -1", "tokens_per_minute"),
        ("caps = 5", "caps"),
        ("caps.output_tokens = -1", "caps.output_tokens"),
        ('caps.output_tokens = "many"', "caps.output_tokens"),
        ("caps.sequences = 1.5", "caps.sequences"),
        ("budget = 5", "budget"),
        ("budget.tokens_per_day = 0", "budget.tokens_per_day"),
        ("budget.requests_per_hour = inf", "budget.requests_per_hour"),
        ("budget.concurrency = 0", "budget.concurrency"),
        ("budget.soft_ratio = 1.5", "budget.soft_ratio"),
        ('budget.borrow = "yes"', "budget.borrow"),
        ('organisation = "acme"', "organisation"),
        ("organisation = 7", "organisation"),
    ],
)
def test_a_wrong_value_of_a_tenant_is_named_with_its_remedy(line: str, field: str) -> None:
    """In the words of the field."""
    what, remedy = FORMS[field.partition(".")[0]]
    assert problems(f"[tenants.share]\n{line}\n") == (Problem(f"tenants.share.{field}", what, remedy),)


@pytest.mark.parametrize(
    ("text", "where", "allowed"),
    [
        ("[tenant.a]\n", "tenant", "organisations, tenants, keys"),
        ("[tenants.a]\nclass = 'normal'\n", "tenants.a.class", "classes, default_class"),
        ("[tenants.a.caps]\nn = 7\n", "tenants.a.caps.n", "output_tokens, sequences"),
        ("[tenants.a.budget]\ntokens_per_week = 7\n", "tenants.a.budget.tokens_per_week", "tokens_per_hour"),
        ("[organisations.a]\nclasses = []\n", "organisations.a.classes", "budget"),
        ("[organisations.a.budget]\nx = 1\n", "organisations.a.budget.x", "seat_seconds_per_month"),
        (with_key("key", "'secret'"), "keys.1.key", "id, sha256, tenant, created, expires, note"),
    ],
)
def test_an_unknown_field_is_named_with_those_that_are_allowed(text: str, where: str, allowed: str) -> None:
    """In the table where it stands."""
    (problem,) = problems(text)
    assert (problem.where, problem.what) == (where, "unknown field")
    assert allowed in problem.remedy


@pytest.mark.parametrize(
    ("text", "where", "field"),
    [
        ("tenants = 7\n", "tenants", "tenants"),
        ("[tenants]\na = 7\n", "tenants.a", "tenants"),
        ("[tenants.'a b']\n", "tenants.a b", ""),
        ("[tenants.'']\n", "tenants.", ""),
        (f"[tenants.{A_KEY}]\n", None, ""),
        ("organisations = 7\n", "organisations", "organisations"),
        ("[organisations]\na = 7\n", "organisations.a", "organisations"),
        ("[organisations.'a b']\n", "organisations.a b", ""),
        ("time_zone = 7\n", "time_zone", "time_zone"),
        ("time_zone = 'Mars/Olympus'\n", "time_zone", "time_zone"),
        ("time_zone = '../../etc/passwd'\n", "time_zone", "time_zone"),
        ("keys = 7\n", "keys", "keys"),
        ("keys = [7]\n", "keys.1", "keys"),
        ("[keys]\nid = 'a'\n", "keys", "keys"),
    ],
)
def test_a_wrong_table_is_named(text: str, where: str | None, field: str) -> None:
    """Instead of a crash on what stands in it."""
    (problem,) = problems(text)
    assert (problem.what, problem.remedy) == FORMS[field]
    assert where is None or problem.where == where


def test_doubled_ids_and_digests_are_errors_whatever_their_case() -> None:
    """The later one is named, and the first it is like."""
    other = KEY.replace(DIGEST, DIGEST.upper())
    third = KEY.replace('"k"', '"l"').replace(DIGEST, "1e" * 32)
    found = problems(f"[tenants.a]\n[[keys]]\n{KEY}[[keys]]\n{third}[[keys]]\n{other}")
    assert [(one.where, one.what, one.line) for one in found] == [
        ("keys.3.id", "the same as in keys.1", 12),
        ("keys.3.sha256", "the same as in keys.1", 12),
    ]


def test_the_digest_of_an_empty_key_is_an_error() -> None:
    """A header without a key would be a key."""
    (problem,) = problems(with_key("sha256", f'"{hashlib.sha256(b"").hexdigest()}"'))
    assert (problem.where, problem.what) == ("keys.1.sha256", "is the digest of an empty key")


def test_all_errors_are_told_at_once() -> None:
    """Of several tables, of one field and between fields."""
    text = f"[tenants.a]\nshare = -1\nclass = 1\n[[keys]]\n{KEY}[[keys]]\n{KEY.replace(DIGEST, 'x')}colour = 1\n"
    wheres = {one.where for one in problems(text.replace('tenant = "a"', 'tenant = "b"'))}
    assert wheres == {
        "tenants.a.share", "tenants.a.class", "keys.1.tenant", "keys.2.tenant", "keys.2.sha256", "keys.2.colour",
        "keys.2.id",
    }  # fmt: skip


def test_of_very_many_errors_the_first_are_told_and_the_others_counted() -> None:
    """In a line that a log can hold."""
    found = problems("[tenants.a]\n" + "[[keys]]\n" * 1000)
    assert len(found) == MAX_PROBLEMS + 1
    assert found[-1].what == f"and {4000 - MAX_PROBLEMS} more errors"


def test_no_error_holds_a_key() -> None:
    """Wherever it was written by mistake."""
    key = new_key()
    texts = [with_key(field, f'"{key}"') for field in ("id", "sha256", "tenant", "created", "note", "key")]
    texts += [f"[tenants.{key}]\nshare = 0\n", f"[tenants.a]\n{key} = 1\n", f"{key} = 'a'\n"]
    for text in texts[:4] + texts[5:]:
        assert all(key[10:] not in str(one) for one in problems(text)), text
    assert parsed(texts[4]).keys[0].note == key


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[tenants.a\n", "not valid TOML: "),
        ("a = " + "[" * 1500, "nested too deeply"),
        ("a = '" + "x" * MAX_LINE_CHARS + "'", f"longer than {MAX_LINE_CHARS} characters"),
        ("#" + "\n" * MAX_FILE_BYTES, f"larger than {MAX_FILE_BYTES} bytes"),
    ],
    ids=["TOML", "depth", "line", "size"],
)
def test_what_is_no_toml_or_too_large_is_one_error(text: str, what: str) -> None:
    """With its place, as far as there is one."""
    (problem,) = problems(text)
    assert what in problem.what


def test_as_many_keys_as_are_allowed_and_no_more() -> None:
    """The keys fit in the largest file, as the command writes them."""
    lines = 'id = "team-{0}"\nsha256 = "{0:064x}"\ntenant = "a"\ncreated = "{1}"\nexpires = "{1}"\n'
    keys = [f"[[keys]]\n{lines.format(number, '2026-01-31T12:00:00Z')}\n" for number in range(MAX_KEYS + 1)]
    text = "[tenants.a]\n" + "".join(keys[:-1])
    assert len(parsed(text).keys) == MAX_KEYS
    assert [(one.where, one.what) for one in problems(text + keys[-1])] == [("keys", FORMS["keys"][0])]


@given(text=st.text(max_size=60) | st.text(alphabet='[]keystnats.a="1\n', max_size=80))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    """No other error comes out."""
    said = ""
    try:
        parsed(text)
    except KeysFileError as error:
        said = str(error)
    assert "\n" not in said
