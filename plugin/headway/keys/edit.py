"""Changes to a keys file: a key is added, revoked, or replaced by another one.

A change is made to the text, so that comments stay, then read and checked like any keys file, and compared with the
change that was wanted. The file is replaced as a whole: a server that reads it meanwhile sees the old or the new one. A
new file has mode 0600; an existing file keeps its owner and its mode. A lock on FILE.lock keeps two editors apart.
"""

from __future__ import annotations

import copy
import fcntl
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from headway.keys.key_ring import Key, KeyRing, digest_of, new_key
from headway.keys.keys_file import read_keys_text
from headway.keys.parse import parse_keys, read_table
from headway.keys.problems import KeysFileError, Problem
from headway.keys.toml_blocks import key_lines, with_fields, with_key_value, with_table, without_key
from headway.utc_text import utc_text
from headway_policies.preset import Setting, toml_text

#: The fields of a tenant, in the order in which they are written.
Settings = Mapping[str, Setting | Sequence[str]]

_BEGINNING = """\
# The keys of this server, as digests, and the terms of their tenants. `headway keys` changes this file.
"""
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_MAX_ID_NAME_CHARS = 48


@dataclass(frozen=True, slots=True)
class MadeKey:
    """A new key: its text, which is kept nowhere, and its entry in the file."""

    text: str = field(repr=False)
    key: Key


def add_key(
    path: str,
    tenant: str,
    *,
    now: datetime,
    settings: Settings | None = None,
    key_id: str | None = None,
    lifetime: timedelta | None = None,
    note: str = "",
) -> MadeKey:
    """Make a key for a tenant, in a new file if there is none. Raises KeysFileError.

    A tenant that the file does not know is added, with these ``settings``; one that it knows must be given none.
    """
    with _edited(path, create=True) as file:
        text, wanted = file.text, copy.deepcopy(file.table)
        tenants = wanted.setdefault("tenants", {})
        if tenant not in tenants:
            tenants[tenant] = dict(settings or {})
            text = with_table(text, f"[tenants.{_table_name(tenant)}]", tenants[tenant])
        elif settings:
            remedy = "change its fields in the file, or leave out the options of the tenant"
            raise KeysFileError(path, [Problem(f"tenants.{tenant}", "is there already", remedy)])
        expires = None if lifetime is None else now + lifetime
        made = _make(key_id or _free_id(tenant[:_MAX_ID_NAME_CHARS], "-", 1, file.ring), tenant, now, expires, note)
        file.replace(*_with_key(text, wanted, made.key))
    return made


def revoke_key(path: str, key_id: str) -> Key:
    """Remove a key: it is refused as soon as a server has read the file. Raises KeysFileError."""
    with _edited(path) as file:
        number, key = file.find(key_id)
        wanted = copy.deepcopy(file.table)
        del wanted["keys"][number]
        if not wanted["keys"]:
            del wanted["keys"]
        file.replace(file.changed(without_key, number), wanted)
    return key


def rotate_key(path: str, key_id: str, *, now: datetime, grace: timedelta) -> tuple[MadeKey, Key]:
    """Make a key in place of another one, which expires after the grace. Raises KeysFileError.

    The new key has the tenant, the note and the length of life of the old one; where that was rotated before, which
    shortened its life, those of its last successor. Returns both.
    """
    with _edited(path) as file:
        number, old = file.find(key_id)
        name = key_id.partition("~")[0][:_MAX_ID_NAME_CHARS]
        last = _last(name, old, file.ring)
        expires = last.expires
        if expires is not None:
            with suppress(OverflowError):  # beyond the year 9999: it ends with the old one
                expires = now + (expires - last.created)
        made = _make(
            _free_id(name, "~", 2, file.ring),
            old.tenant,
            now,
            expires,
            old.note,
        )
        ends = max(now + grace, old.created)
        ends = ends if old.expires is None else min(ends, old.expires)
        wanted = copy.deepcopy(file.table)
        wanted["keys"][number]["expires"] = utc_text(ends.timestamp())
        text = file.changed(with_key_value, number, "expires", utc_text(ends.timestamp()))
        file.replace(*_with_key(text, wanted, made.key))
    return made, replace(old, expires=ends)


def set_budget(path: str, section: str, name: str, values: Mapping[str, Setting | None]) -> None:
    """Change fields of the budget of a tenant or an organisation; None removes one. Raises KeysFileError.

    ``section`` is ``tenants`` or ``organisations``; an organisation that is not there is added.
    """
    with _edited(path) as file:
        wanted = copy.deepcopy(file.table)
        known = name in wanted.get(section, {})
        if not known and section == "tenants":
            raise KeysFileError(
                path, [Problem(f"tenants.{name[:64]}", "there is no such tenant", "see: headway keys list")]
            )
        text = file.text if known else with_table(file.text, f"[{section}.{_table_name(name)}]", {})
        budget = wanted.setdefault(section, {}).setdefault(name, {}).setdefault("budget", {})
        for field_name, value in values.items():
            budget.pop(field_name, None)
            if value is not None:
                budget[field_name] = value
        if not budget:
            del wanted[section][name]["budget"]
        changed = with_fields(
            text, section, name, {f"budget.{field_name}": value for field_name, value in values.items()}
        )
        if changed is None:
            raise file.unusual()
        file.replace(changed, wanted)


class _EditedFile:
    """A keys file under its lock."""

    def __init__(self, path: str, target: Path, text: str) -> None:
        self.path, self.target, self.text = path, target, text
        self.table = read_table(text, path)
        self.ring: KeyRing = parse_keys(text, path)

    def find(self, key_id: str) -> tuple[int, Key]:
        """The place of a key, from 0 on, and the key."""
        for number, key in enumerate(self.ring.keys):
            if key.id == key_id:
                return number, key
        raise KeysFileError(self.path, [Problem("", "there is no key of that id", "see: headway keys list")])

    def changed(self, change: Callable[..., str], number: int, *values: str) -> str:
        """The text after a change to the [[keys]] table of this number."""
        if len(key_lines(self.text)) != len(self.ring.keys):
            raise self.unusual()
        return change(self.text, number, *values)

    def replace(self, text: str, wanted: Mapping[str, Any]) -> None:
        """Put this text in the file, if it says what is wanted and nothing else. Raises KeysFileError."""
        try:
            found = read_table(text, self.path)
        except KeysFileError:
            raise self.unusual() from None
        parse_keys(text, self.path)
        if found != wanted:
            raise self.unusual()
        _write(self.path, self.target, text)

    def unusual(self) -> KeysFileError:
        """The error of a text in which the place of a change is not found."""
        remedy = "write each key as a [[keys]] table and each tenant as [tenants.NAME], one field a line"
        return KeysFileError(self.path, [Problem("", "cannot be changed by a program as it is written", remedy)])


@contextmanager
def _edited(path: str, *, create: bool = False) -> Iterator[_EditedFile]:
    """The file under its lock; the file behind a symbolic link, so that the link stays."""
    target = Path(os.path.realpath(path))
    with _locked(path, target):
        text = _BEGINNING if create and not target.exists() else read_keys_text(path)[0]
        yield _EditedFile(path, target, text)


@contextmanager
def _locked(path: str, target: Path) -> Iterator[None]:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        lock = os.open(f"{target}.lock", flags, 0o600)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _write(path: str, target: Path, text: str) -> None:
    """Replace the file as a whole, so that it is on the disk when this returns. Raises KeysFileError."""
    part: str | None = None
    try:
        descriptor, part = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)  # of mode 0600
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if target.exists():
                _as_before(descriptor, os.stat(target))
            os.fsync(descriptor)
        os.replace(part, target)
        part = None
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        if part is not None:
            os.unlink(part)


def _as_before(descriptor: int, before: os.stat_result) -> None:
    """Give the new file the owner and the mode of the old one: the server that reads it may be another user."""
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, before.st_mode & 0o7777)


def _unwritable(path: str, error: OSError) -> KeysFileError:
    remedy = "run the command as the owner of the file, and check its folder"
    return KeysFileError(path, [Problem("", f"cannot be changed: {error.strerror}", remedy)])


# ---------------------------------------------------------------------- keys


def _make(key_id: str, tenant: str, now: datetime, expires: datetime | None, note: str) -> MadeKey:
    text = new_key()
    return MadeKey(text, Key(key_id, digest_of(text), tenant, now, expires, note))


def _with_key(text: str, wanted: dict[str, Any], key: Key) -> tuple[str, dict[str, Any]]:
    """The text and the table with one more key."""
    created = utc_text(key.created.timestamp())
    values = {"id": key.id, "sha256": key.digest.hex(), "tenant": key.tenant, "created": created}
    if key.expires is not None:
        values["expires"] = utc_text(key.expires.timestamp())
    if key.note:
        values["note"] = key.note
    wanted.setdefault("keys", []).append(values)
    return with_table(text, "[[keys]]", values), wanted


def _free_id(name: str, between: str, first: int, ring: KeyRing) -> str:
    """The first of NAME-1, NAME-2 ... that comes after all of them that there are."""
    used = [key.id.removeprefix(name + between) for key in ring.keys if key.id.startswith(name + between)]
    number = max([first, *(int(end) + 1 for end in used if end.isascii() and end.isdecimal() and len(end) < 10)])
    return f"{name}{between}{number}"


def _last(name: str, old: Key, ring: KeyRing) -> Key:
    """The successor of a key with the highest number, else the key itself."""
    own = [key for key in ring.keys if key.tenant == old.tenant]
    return max([old, *own], key=lambda key: _number(key.id, name))


def _number(key_id: str, name: str) -> int:
    """The number at the end of an id of a successor; 0 for any other."""
    end = key_id.removeprefix(name + "~")
    return int(end) if end != key_id and end.isascii() and end.isdecimal() and len(end) < 10 else 0


def _table_name(tenant: str) -> str:
    """The name in the header of a table, in quotes where it needs them."""
    return tenant if _BARE.fullmatch(tenant) else toml_text(tenant)
