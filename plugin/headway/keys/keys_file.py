"""The keys file that HEADWAY_KEYS_FILE names: read at the start, and again whenever it has changed.

A file that cannot be used is refused at the start. Later the keys of before stay in force, one warning is logged, and
``problem`` says why until the file is good again. No key and no digest is ever logged.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from headway.keys.class_names import unknown_classes
from headway.keys.key_ring import KeyRing
from headway.keys.parse import MAX_FILE_BYTES, parse_keys
from headway.keys.problems import KeysFileError, Problem
from headway.settings import Environment
from headway_policies.entitlement import Entitlement
from headway_policies.text_file import read_text_file

log = logging.getLogger(__name__)

VARIABLE = Environment.keys_file.name
_EVERY_S = 1.0
_PROBLEMS_LOGGED = 3
_NAMES_TOLD = 8


@dataclass(frozen=True, slots=True)
class FileState:
    """The marks that tell a changed file from the same one, and its mode. ``ctime_ns`` also changes with its owner."""

    mtime_ns: int
    ctime_ns: int
    size_bytes: int
    inode: int
    mode: int


@dataclass(frozen=True, slots=True)
class ReadKeys:
    """A keys file as it was read; ``warning`` is one line about its mode, where that lets others read it."""

    ring: KeyRing
    state: FileState
    warning: str | None = None


def read_keys_file(path: str) -> ReadKeys:
    """Read a keys file. Raises KeysFileError with all that is wrong with it."""
    text, state = read_keys_text(path)
    return ReadKeys(parse_keys(text, path), state, _readable_by_others(path, state))


def read_keys_text(path: str) -> tuple[str, FileState]:
    """The text of a keys file, of bounded size, that only its owner and its group can write. Raises KeysFileError."""
    try:
        state = _state(path)
        text = read_text_file(path, MAX_FILE_BYTES)
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte; TextFileError is one
        cause = error.strerror if isinstance(error, OSError) else str(error)
        remedy = f"check {VARIABLE} or --file, and the mode of the file"
        raise KeysFileError(path, [Problem("", f"cannot be read: {cause}", remedy)]) from None
    if state.mode & stat.S_IWOTH:
        what = f"its mode {state.mode:04o} lets every user of this machine write it"
        raise KeysFileError(path, [Problem("", what, "chmod o-w FILE, and check what it says")])
    return text, state


class KeysFile:
    """The keys file, and the keys in force. ``ring`` is replaced as a whole, on the event loop's thread."""

    def __init__(self, path: str, classes: Collection[str] = ()) -> None:
        """Read the file; a class of a tenant that is not among these ``classes`` is logged. Raises KeysFileError."""
        self.path = path
        self._classes = tuple(classes)
        self.problem: str | None = None
        read = read_keys_file(path)
        self.ring = read.ring
        self._seen: FileState | None = read.state
        self._changing: FileState | None = None
        self._report(read, "read")

    async def watch(self, changed: Callable[[str], None] = lambda words: None) -> None:
        """Look at the file every second, and read it again when it has changed, for as long as the server runs.

        ``changed`` is told which tenants and keys are others than before.
        """
        while True:
            await asyncio.sleep(_EVERY_S)
            before = self.ring
            await self.look()
            if self.ring is not before and (words := _difference(before, self.ring)):
                changed(words)

    async def look(self) -> None:
        """Read the file again if it has changed since it was read, in a thread: a large one takes a while.

        A file that is written in place is read when two looks have found it the same; half of it may be valid as well.
        """
        state = await asyncio.to_thread(_state_or_none, self.path)
        if state == self._seen:
            return
        if _written_in_place(self._seen, state) and state != self._changing:
            self._changing = state
            return
        self._seen = state
        try:
            read = await asyncio.to_thread(read_keys_file, self.path)
        except KeysFileError as error:
            self.problem = str(error)
            log.warning("the keys of before stay in force: %s", error.beginning(_PROBLEMS_LOGGED))
            return
        self._seen = read.state
        self.ring, self.problem = read.ring, None
        self._report(read, "read again")

    def _report(self, read: ReadKeys, what: str) -> None:
        keys, tenants = len(read.ring.keys), len(read.ring.tenants)
        log.info("keys file %s: %s, %d keys of %d tenants", self.path, what, keys, tenants)
        if read.warning is not None:
            log.warning("%s", read.warning)
        if read.ring.has_budgets and Environment().usage_db is None:
            log.warning("keys file %s: its budgets bound nothing: start with %s", self.path, Environment.usage_db.name)
        unknown = unknown_classes(read.ring.tenants.values(), self._classes) if self._classes else ()
        for problem in islice(unknown, _PROBLEMS_LOGGED):
            log.warning("keys file %s: %s", self.path, problem)


def _difference(before: KeyRing, after: KeyRing) -> str:
    """The names of changed entries of a file, some of each kind; empty without changes."""
    tenants = _changed(_own(before), _own(after))
    organisations = _changed(before.organisations(), after.organisations())
    ids = {key.id for key in set(before.keys) ^ set(after.keys)}
    found = [("tenants", tenants), ("organisations", organisations), ("keys", sorted(ids))]
    return "; ".join(f"{what}: {_some(names)}" for what, names in found if names)


def _own(ring: KeyRing) -> dict[str, Entitlement]:
    """The entitlement of each tenant without its organisation, whose change would name all its members."""
    return {name: replace(tenant, budgets=tenant.budgets[:1]) for name, tenant in ring.tenants.items()}


def _changed(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_TOLD
    return ", ".join(names[:_NAMES_TOLD]) + (f" and {more} more" if more > 0 else "")


def _state(path: str) -> FileState:
    """The state of a file. Raises OSError, or ValueError for a null byte in the name."""
    found = os.stat(path)
    return FileState(found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, stat.S_IMODE(found.st_mode))


def _state_or_none(path: str) -> FileState | None:
    """The state of a file; None for a missing or unreadable file."""
    try:
        return _state(path)
    except OSError:
        return None


def _written_in_place(before: FileState | None, now: FileState | None) -> bool:
    return before is not None and now is not None and before.inode == now.inode


def _readable_by_others(path: str, state: FileState) -> str | None:
    if not state.mode & stat.S_IROTH:
        return None
    return (
        f"{path}: its mode {state.mode:04o} lets every user of this machine read the names of tenants and keys; "
        "chmod 600, or 640 with the group of the server"
    )
