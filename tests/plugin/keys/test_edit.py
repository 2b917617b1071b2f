"""Changes to a keys file: what they leave as it was, what they refuse, and that they are whole and apart."""

from __future__ import annotations

import os
import re
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.keys import KeysFileError, add_key, edit, read_keys_file, revoke_key, rotate_key, set_budget
from headway.keys.key_ring import is_key

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)

ADA = f"""\
[[keys]]  # since Christmas
id = "ada"
sha256 = "{"0f" * 32}"
# she asked for it
tenant = "chat"
created = 2025-12-24T12:00:00Z

"""
BOB = f"""\
[[keys]]
id = "bob"
sha256 = "{"1e" * 32}"
tenant = "chat"
created = "2026-01-30T12:00:00Z"
expires = "2026-03-01T12:00:00Z"  # his birthday
note = "laptop"

"""
COMMENTED = f"""\
# the keys of the lab
[tenants.chat]  # people
share = 3

# Ada's
{ADA}# Bob's, until March
{BOB}[tenants.jobs]  # machines
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A keys file with comments."""
    file = tmp_path / "keys.toml"
    file.write_text(COMMENTED, encoding="utf-8")
    file.chmod(0o600)
    return file


def ids(path: Path) -> list[str]:
    return [key.id for key in read_keys_file(str(path)).ring.keys]


def test_the_first_key_makes_the_file_for_its_owner_alone(tmp_path: Path) -> None:
    """With its tenant; the key is the one whose digest the file has."""
    path = tmp_path / "keys.toml"
    settings = {"classes": ["normal", "batch"], "default_class": "batch", "share": 0.5, "tokens_per_minute": 2e5}
    made = add_key(str(path), "team.a", now=NOW, settings=settings, lifetime=90 * DAY, note='the "lab"')
    assert is_key(made.text)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    ring = read_keys_file(str(path)).ring
    assert ring.keys == (made.key,)
    assert (made.key.id, made.key.expires, made.key.note) == ("team.a-1", NOW + 90 * DAY, 'the "lab"')
    found = ring.entitlement_of(f"Bearer {made.text}", None, NOW.timestamp())
    assert found == ("team.a-1", ring.tenants["team.a"])
    assert ring.tenants["team.a"].classes == {"normal", "batch"}
    assert (ring.tenants["team.a"].share, ring.tenants["team.a"].tokens_per_minute) == (0.5, 200_000)
    assert made.text not in path.read_text(encoding="utf-8")
    assert made.text not in repr(made)


def test_a_further_key_leaves_every_line_as_it_was(path: Path) -> None:
    """At the end; its id is the next of its tenant."""
    for expected in ("chat-1", "chat-2"):
        assert add_key(str(path), "chat", now=NOW).key.id == expected
    assert add_key(str(path), "jobs", now=NOW, key_id="night").key.tenant == "jobs"
    assert path.read_text(encoding="utf-8").startswith(COMMENTED)
    assert ids(path) == ["ada", "bob", "chat-1", "chat-2", "night"]
    revoke_key(str(path), "chat-1")
    assert add_key(str(path), "chat", now=NOW).key.id == "chat-3"


def test_the_fields_of_a_known_tenant_are_not_changed(path: Path) -> None:
    """The fields may have been chosen for other keys of it."""
    with pytest.raises(KeysFileError, match=r"tenants.chat: is there already; change its fields in the file"):
        add_key(str(path), "chat", now=NOW, settings={"share": 7.0})
    assert path.read_text(encoding="utf-8") == COMMENTED


@pytest.mark.parametrize(("key_id", "block"), [("ada", ADA), ("bob", BOB)])
def test_revoking_removes_exactly_the_lines_of_one_key(path: Path, key_id: str, block: str) -> None:
    """And the comments between them, and the blank line behind; every other line stays."""
    assert revoke_key(str(path), key_id).id == key_id
    assert path.read_text(encoding="utf-8") == COMMENTED.replace(block, "")
    assert ids(path) == [one for one in ("ada", "bob") if one != key_id]


def test_the_last_key_can_be_revoked(tmp_path: Path) -> None:
    """Its tenant stays, and can be given another one."""
    path = tmp_path / "keys.toml"
    first = add_key(str(path), "team", now=NOW)
    revoke_key(str(path), first.key.id)
    ring = read_keys_file(str(path)).ring
    assert (ring.keys, list(ring.tenants)) == ((), ["team"])
    add_key(str(path), "team", now=NOW)
    assert ids(path) == ["team-1"]


def test_rotating_gives_both_keys_for_the_grace_and_then_the_new_one(path: Path) -> None:
    """The new key has the tenant, the note and the length of life of the old one."""
    made, old = rotate_key(str(path), "bob", now=NOW, grace=DAY)
    assert (made.key.id, made.key.tenant, made.key.note) == ("bob~2", "chat", "laptop")
    assert made.key.expires == NOW + timedelta(days=30)
    assert (old.id, old.expires) == ("bob", NOW + DAY)
    assert read_keys_file(str(path)).ring.keys[1:] == (old, made.key)
    again, second = rotate_key(str(path), "bob~2", now=NOW + DAY, grace=timedelta(0))
    assert (again.key.id, second.expires) == ("bob~3", NOW + DAY)
    ring = read_keys_file(str(path)).ring
    after_s = (NOW + DAY).timestamp()
    assert ring.entitlement_of(None, made.text, after_s - 1) is not None
    assert ring.entitlement_of(None, made.text, after_s) is None
    assert ring.entitlement_of(None, again.text, after_s) is not None


def test_rotating_never_lengthens_the_life_of_the_old_key(path: Path) -> None:
    """Nor ends it before it began; a key that never expires has a successor that never does."""
    assert rotate_key(str(path), "bob", now=NOW, grace=365 * DAY)[1].expires == datetime(2026, 3, 1, 12, tzinfo=UTC)
    made, old = rotate_key(str(path), "ada", now=datetime(2025, 1, 1, tzinfo=UTC), grace=timedelta(0))
    assert (made.key.expires, old.expires) == (None, datetime(2025, 12, 24, 12, tzinfo=UTC))


def test_a_key_that_is_rotated_again_has_a_successor_with_its_first_life(path: Path) -> None:
    """The first new key was lost before anybody had it."""
    for key_id, life in (("ada", None), ("bob", timedelta(days=30))):
        for grace in (timedelta(0), DAY):
            made, _ = rotate_key(str(path), key_id, now=NOW, grace=grace)
            assert made.key.expires == (None if life is None else NOW + life)
    made, _ = rotate_key(str(path), "bob~2", now=NOW, grace=DAY)
    assert (made.key.id, made.key.expires) == ("bob~4", NOW + timedelta(days=30))


def test_a_key_with_the_longest_name_can_be_rotated(path: Path) -> None:
    """The number of its successor takes the place of its last letters."""
    path.write_text(path.read_text().replace('"bob"', f'"{"b" * 64}"'))
    made, _ = rotate_key(str(path), "b" * 64, now=NOW, grace=DAY)
    assert re.fullmatch("b+~2", made.key.id)
    assert made.key.tenant == "chat"


def test_a_key_that_never_really_expires_can_be_rotated(path: Path) -> None:
    """Its successor cannot live as long from now on: it ends with the year 9999, too."""
    path.write_text(path.read_text().replace("2026-03-01T12:00:00Z", "9999-12-31T23:59:59Z"))
    made, old = rotate_key(str(path), "bob", now=NOW, grace=timedelta(0))
    assert made.key.expires == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert old.expires == NOW


@pytest.mark.parametrize("key_id", ["carol", "", "ada~2", "ad"])
def test_a_key_that_is_not_there_is_an_error(path: Path, key_id: str) -> None:
    """The file stays as it was."""
    with pytest.raises(KeysFileError, match="no key of that id; see: headway keys list"):
        revoke_key(str(path), key_id)
    with pytest.raises(KeysFileError, match="no key of that id"):
        rotate_key(str(path), key_id, now=NOW, grace=DAY)
    assert path.read_text(encoding="utf-8") == COMMENTED


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tenant": "a b"}, "the name of a tenant must be"),
        ({"tenant": ""}, "the name of a tenant must be"),
        ({"tenant": 'a"]\n[b'}, "the name of a tenant must be"),
        ({"tenant": "new", "settings": {"share": 1000.0}}, "tenants.new.share: must be a number"),
        ({"tenant": "new", "settings": {"share": float("nan")}}, "tenants.new.share: must be a number"),
        ({"tenant": "new", "settings": {"classes": ["a b"]}}, "tenants.new.classes.1: must be a list"),
        ({"tenant": "chat", "key_id": "ada"}, "keys.3.id .*the same as in keys.1"),
        ({"tenant": "chat", "key_id": "a b"}, "keys.3.id .*must be 1 to 64"),
        ({"tenant": "chat", "note": "x" * 300}, "keys.3.note .*must be a text"),
    ],
)
def test_what_would_be_an_error_of_the_file_is_refused_before_it_is_written(
    path: Path, options: dict[str, object], message: str
) -> None:
    """In the words that a server has for it."""
    with pytest.raises(KeysFileError, match=message):
        add_key(str(path), now=NOW, **options)  # type: ignore[arg-type]  # a table of options
    assert path.read_text(encoding="utf-8") == COMMENTED
    assert sorted(os.listdir(path.parent)) == ["keys.toml", "keys.toml.lock"]


FIELDS = f'id = "k"\nsha256 = "{"0f" * 32}"\ntenant = "a"\ncreated = 2026-01-01T00:00:00Z\n'
UNUSUAL = {
    "inline": f"tenants = {{a = {{}}}}\nkeys = [{{{', '.join(FIELDS.splitlines())}}}]\n",
    "in quotes": f'[tenants.a]\n[["keys"]]\n{FIELDS}',
    "in a text": f'[[keys]]\n{FIELDS}note = """\\\n[[keys]] # \\\n"""\n[tenants.a]\n',
}


@pytest.mark.parametrize("text", UNUSUAL.values(), ids=UNUSUAL)
def test_a_file_that_is_written_in_another_way_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    """The text after a change is read and compared with what was wanted: never another key is removed."""
    path = tmp_path / "keys.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    assert ids(path) == ["k"]
    with pytest.raises(KeysFileError, match="cannot be changed by a program as it is written"):
        revoke_key(str(path), "k")
    with pytest.raises(KeysFileError, match="cannot be changed by a program as it is written"):
        rotate_key(str(path), "k", now=NOW, grace=DAY)
    assert path.read_text(encoding="utf-8") == text


def test_a_change_that_would_hit_another_key_is_refused(tmp_path: Path) -> None:
    """Of two keys one is written in another way, and the text of the first looks like a table."""
    path = tmp_path / "keys.toml"
    second = FIELDS.replace('"k"', '"l"').replace("0f", "1e")
    text = f'[tenants.a]\n[[keys]]\n{FIELDS}note = """\\\n[[keys]] # \\\n"""\n[["keys"]]\n{second}'
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    assert ids(path) == ["k", "l"]
    with pytest.raises(KeysFileError, match="cannot be changed by a program as it is written"):
        rotate_key(str(path), "l", now=NOW, grace=DAY)
    assert path.read_text(encoding="utf-8") == text


def test_a_broken_file_is_not_changed(path: Path) -> None:
    """Its errors are named."""
    path.write_text(COMMENTED + "colour = 1\n", encoding="utf-8")
    with pytest.raises(KeysFileError, match=r"tenants.jobs.colour: unknown field"):
        add_key(str(path), "chat", now=NOW)


def test_a_replaced_file_keeps_its_mode_and_a_link_stays(path: Path, tmp_path: Path) -> None:
    """The server may read it by its group, under another name."""
    path.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    add_key(str(link), "chat", now=NOW)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert ids(path) == ["ada", "bob", "chat-1"]


def test_a_change_that_fails_half_way_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing beside it."""

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(edit.os, "fsync", full)
    with pytest.raises(KeysFileError, match="cannot be changed: No space left on device"):
        add_key(str(path), "chat", now=NOW)
    assert path.read_text(encoding="utf-8") == COMMENTED
    assert sorted(os.listdir(path.parent)) == ["keys.toml", "keys.toml.lock"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """In one line."""
    with pytest.raises(KeysFileError, match="cannot be changed: No such file or directory"):
        add_key(f"{tmp_path}/missing/keys.toml", "chat", now=NOW)


def test_editors_at_the_same_time_lose_no_key(tmp_path: Path) -> None:
    """Each waits for the lock, and reads what the one before has written."""
    path, errors = tmp_path / "keys.toml", list[BaseException]()

    def add(number: int) -> None:
        try:
            add_key(str(path), f"tenant-{number}", now=NOW)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=add, args=[number]) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(ids(path)) == sorted(f"tenant-{number}-1" for number in range(12))


moves = st.lists(st.tuples(st.sampled_from(["add", "revoke", "rotate"]), st.integers(0, 9)), max_size=15)


@given(moves=moves)
def test_any_changes_in_a_row_leave_a_good_file(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[str, int]]
) -> None:
    """The keys are those that an account of its own has, in the order in which they were added."""
    path = tmp_path_factory.mktemp("keys") / "keys.toml"
    path.write_text(COMMENTED, encoding="utf-8")
    path.chmod(0o600)
    expected = {"ada": None, "bob": None}
    for move, place in moves:
        chosen = list(expected)[place % len(expected)] if expected else None
        if move == "add" or chosen is None:
            made = add_key(str(path), f"tenant{place}", now=NOW)
            assert made.key.id not in expected
            expected[made.key.id] = None
        elif move == "revoke":
            revoke_key(str(path), chosen)
            del expected[chosen]
        else:
            expected[rotate_key(str(path), chosen, now=NOW, grace=DAY)[0].key.id] = None
    assert ids(path) == list(expected)
    before, after = (
        [line for line in text.split("\n") if line.startswith("#") and "asked" not in line]
        for text in (COMMENTED, path.read_text(encoding="utf-8"))
    )
    assert before == after


def test_a_budget_is_changed_where_it_stands(path: Path) -> None:
    """Line by line: comments and other fields stay; a field of None goes."""
    set_budget(path.as_posix(), "tenants", "chat", {"tokens_per_day": 2_000_000, "soft_ratio": 0.8, "borrow": True})
    set_budget(path.as_posix(), "tenants", "chat", {"tokens_per_day": 3_000_000, "borrow": None})
    set_budget(path.as_posix(), "tenants", "jobs", {"concurrency": 4})
    set_budget(path.as_posix(), "organisations", "lab", {"tokens_per_month": 1e9})
    text = path.read_text(encoding="utf-8")
    assert "[tenants.chat]  # people\nshare = 3\nbudget.soft_ratio = 0.8\nbudget.tokens_per_day = 3000000\n" in text
    assert "[tenants.jobs]  # machines\nbudget.concurrency = 4\n" in text
    assert "\n[organisations.lab]\nbudget.tokens_per_month = 1000000000\n" in text
    assert "# she asked for it" in text
    (chat,) = read_keys_file(path.as_posix()).ring.tenants["chat"].budgets
    assert ({bound.name: limit for bound, limit in chat.budget.limits.items()}, chat.budget.soft_ratio) == (
        {"tokens_per_day": 3_000_000}, 0.8,
    )  # fmt: skip
    set_budget(path.as_posix(), "tenants", "chat", {"tokens_per_day": None, "soft_ratio": None})
    assert read_keys_file(path.as_posix()).ring.tenants["chat"].budgets == ()


@pytest.mark.parametrize(
    ("name", "values", "what"),
    [
        ("nobody", {"tokens_per_day": 5}, "there is no such tenant"),
        ("chat", {"tokens_per_day": 0}, "must be a table"),
        ("inline", {"tokens_per_day": 5}, "cannot be changed by a program"),
    ],
)
def test_a_budget_that_cannot_be_changed_leaves_the_file(
    path: Path, name: str, values: dict[str, float], what: str
) -> None:
    """With the place in the error."""
    before = f"{path.read_text(encoding='utf-8')}\n[tenants.inline]\nbudget = {{ concurrency = 3 }}\n"
    path.write_text(before, encoding="utf-8")
    with pytest.raises(KeysFileError, match=what):
        set_budget(path.as_posix(), "tenants", name, values)
    assert path.read_text(encoding="utf-8") == before
