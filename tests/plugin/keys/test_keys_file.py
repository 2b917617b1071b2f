"""The keys file of a running server: read at the start, read again when it has changed, and what becomes of errors."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import pytest

from headway.keys import KeysFile, KeysFileError, digest_of, read_keys_file
from headway.keys import keys_file as module

TENANT = "[tenants.team]\n"


def block(name: str) -> str:
    """A [[keys]] table for the key of this text."""
    digest = digest_of(f"key {name}").hex()
    return f'[[keys]]\nid = "{name}"\nsha256 = "{digest}"\ntenant = "team"\ncreated = "2026-01-31T12:00:00Z"\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A keys file with one key."""
    file = tmp_path / "keys.toml"
    replace(file, TENANT + block("a"))
    return file


def replace(path: Path, text: str, mode: int = 0o600) -> None:
    """Write it as editors do that take care: another file in its place."""
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.chmod(mode)
    part.replace(path)


def write(path: Path, text: str) -> None:
    """Write it in place."""
    path.write_text(text, encoding="utf-8")


def known(file: KeysFile) -> list[str]:
    """The names of the keys that are in force, of a, b and c."""
    return [name for name in "abc" if file.ring.entitlement_of(None, f"key {name}", 0.0) is not None]


def test_it_is_read_at_the_start_and_told_in_one_line(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """How many keys and tenants; no key and no digest."""
    caplog.set_level(logging.INFO, "headway.keys")
    file = KeysFile(str(path))
    assert (known(file), file.problem) == (["a"], None)
    assert caplog.messages == [f"keys file {path}: read, 1 keys of 1 tenants"]


@pytest.mark.parametrize("name", ["missing.toml", ".", "null\0byte", "missing/keys.toml"])
def test_a_file_that_cannot_be_read_is_refused_at_the_start(tmp_path: Path, name: str) -> None:
    """In one line that says what to do."""
    with pytest.raises(KeysFileError, match=r"cannot be read: .*; check HEADWAY_KEYS_FILE"):
        KeysFile(f"{tmp_path}/{name}")


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    """Reading it might block for ever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(KeysFileError, match="not a regular file"):
        KeysFile(str(tmp_path / "pipe"))


@pytest.mark.parametrize("mode", [0o602, 0o666])
def test_a_file_that_others_can_write_is_refused(path: Path, mode: int) -> None:
    """Any user of the machine could add a key."""
    path.chmod(mode)
    with pytest.raises(KeysFileError, match=f"its mode {mode:04o} lets every user of this machine write it; chmod o-w"):
        read_keys_file(str(path))


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, False), (0o660, False), (0o644, True)])
def test_a_file_that_others_can_read_is_warned_of(
    path: Path, mode: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The file is used all the same: it holds no keys."""
    path.chmod(mode)
    file = KeysFile(str(path))
    assert known(file) == ["a"]
    assert (read_keys_file(str(path)).warning is not None) is warned
    assert ("lets every user of this machine read" in caplog.text) is warned


async def test_a_file_that_was_replaced_is_read_at_the_next_look(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Keys come and go with it; one that is the same is not read again."""
    file = KeysFile(str(path))
    before = file.ring
    await file.look()
    assert file.ring is before
    caplog.set_level(logging.INFO, "headway.keys")
    replace(path, TENANT + block("b") + block("c"))
    await file.look()
    await file.look()
    assert known(file) == ["b", "c"]
    assert caplog.messages == [f"keys file {path}: read again, 2 keys of 1 tenants"]


async def test_a_file_that_is_written_in_place_is_read_when_it_is_whole(path: Path) -> None:
    """Half of it is valid, and has fewer keys: it is not read while each look finds another state."""
    file = KeysFile(str(path))
    write(path, TENANT)
    await file.look()
    assert known(file) == ["a"]
    write(path, TENANT + block("a") + block("b"))
    await file.look()
    assert known(file) == ["a"]
    await file.look()
    assert known(file) == ["a", "b"]


async def test_a_link_that_leads_elsewhere_is_a_changed_file(path: Path, tmp_path: Path) -> None:
    """As a mounted secret of Kubernetes changes."""
    other, link = tmp_path / "other.toml", tmp_path / "link.toml"
    replace(other, TENANT + block("b"))
    link.symlink_to(path)
    file = KeysFile(str(link))
    (tmp_path / "new").symlink_to(other)
    (tmp_path / "new").replace(link)
    await file.look()
    assert known(file) == ["b"]


BROKEN = TENANT + block("b").replace("[[keys]]", "[[keys]]\ncolour = 1") + "[[keys]]\n"


async def test_a_broken_file_leaves_the_keys_of_before_in_force(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One warning with the first errors, and the problem until the file is good again."""
    file = KeysFile(str(path))
    replace(path, BROKEN)
    for _ in range(3):
        await file.look()
    assert known(file) == ["a"]
    assert file.problem is not None
    assert "keys.1.colour (line 2): unknown field" in file.problem
    (line,) = caplog.messages
    assert line.startswith(f"the keys of before stay in force: {path}: keys.1.colour")
    assert line.endswith("; and 2 more")
    replace(path, TENANT + block("c"))
    await file.look()
    assert (known(file), file.problem) == (["c"], None)


async def test_a_file_that_has_gone_or_that_others_can_write_leaves_them_too(path: Path) -> None:
    """Until it is back."""
    file = KeysFile(str(path))
    os.unlink(path)
    await file.look()
    assert file.problem is not None
    assert "No such file" in file.problem
    replace(path, TENANT + block("b"), mode=0o666)
    await file.look()
    assert "lets every user of this machine write it" in file.problem
    assert known(file) == ["a"]
    os.chmod(path, 0o600)
    await file.look()
    await file.look()
    assert (known(file), file.problem) == (["b"], None)


async def test_it_looks_again_and_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second, until it is cancelled."""
    looks = asyncio.Semaphore(0)
    file = KeysFile(str(path))

    async def look() -> None:
        looks.release()

    monkeypatch.setattr(file, "look", look)
    monkeypatch.setattr(module, "_EVERY_S", 0.0)
    watching = asyncio.create_task(file.watch())
    for _ in range(3):
        await looks.acquire()
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching


async def test_a_changed_file_names_what_has_changed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tenants by their own budget, organisations by theirs, and keys; nothing where only a comment differs."""
    told: list[str] = []
    before = '[tenants.a]\norganisation = "acme"\n[tenants.b]\norganisation = "acme"\nbudget.concurrency = 2\n'
    whole = "[organisations.acme]\nbudget.concurrency = {}\n"
    replace(path, before + whole.format(5))
    file = KeysFile(str(path))
    monkeypatch.setattr(module, "_EVERY_S", 0.0)
    watching = asyncio.create_task(file.watch(told.append))
    steps = [
        before.replace("concurrency = 2", "concurrency = 3") + whole.format(5),
        before.replace("concurrency = 2", "concurrency = 3") + whole.format(6),
        before.replace("concurrency = 2", "concurrency = 3") + whole.format(6) + "# kept\n",
        before.replace("concurrency = 2", "concurrency = 3") + whole.format(6) + TENANT + block("new"),
    ]
    for text in steps:
        ring = file.ring
        replace(path, text)
        while file.ring is ring:  # noqa: ASYNC110 - it has no event for it
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    watching.cancel()
    assert told == ["tenants: b", "organisations: acme", "tenants: team; keys: new"]


async def test_the_event_loop_goes_on_while_a_file_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is read in a thread."""
    file = KeysFile(str(path))
    loop, reading, read = asyncio.get_running_loop(), asyncio.Event(), module.read_keys_file

    def slow(name: str) -> object:
        loop.call_soon_threadsafe(reading.set)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
        return read(name)

    monkeypatch.setattr(module, "read_keys_file", slow)
    replace(path, TENANT + block("b"))
    looking = asyncio.create_task(file.look())
    await reading.wait()
    assert known(file) == ["a"]
    await looking
    assert known(file) == ["b"]


def test_a_class_that_no_preset_has_is_logged_at_each_reading(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A request would get another one without a word; the tenant and the closest class are named."""
    replace(path, '[tenants.team]\nclasses = ["realtme", "batch"]\n' + block("a"))
    KeysFile(str(path), ["realtime", "batch"])
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert line.startswith(f"keys file {path}: tenants.team: there is no class 'realtme'")
    assert line.endswith("did you mean realtime?")
