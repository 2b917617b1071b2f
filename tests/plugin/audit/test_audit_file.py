"""The audit file: appended to, rotated, opened anew when it was moved, and never the trouble of an order."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headway.audit import AuditFile, audit_file
from headway.errors import HeadwayError

ENTRY: dict[str, Any] = {"action": "switch_preset", "after": "x" * 80}


@contextmanager
def opened(path: Path, **options: Any) -> Iterator[AuditFile]:
    """A file that is closed at the end."""
    file = AuditFile(path, **options)
    try:
        yield file
    finally:
        file.close()


def written(file: AuditFile) -> None:
    """Wait until every line so far has been written, or is lost."""
    file._lines.join()


def numbers(*paths: Path) -> list[int]:
    """The numbers of the entries in these files, in their order; every line must be JSON."""
    return [json.loads(line)["number"] for path in paths for line in path.read_text().splitlines()]


def test_lines_are_appended_to_what_is_there(tmp_path: Path) -> None:
    """A new file is the owner's alone."""
    path = tmp_path / "audit.jsonl"
    for number in range(3):
        with opened(path) as file:
            file.write({"number": number})
    assert numbers(path) == [0, 1, 2]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_full_file_is_rotated_and_the_oldest_is_removed(tmp_path: Path) -> None:
    """None is larger than its bound, no line is torn, and the newest lines are all there."""
    path = tmp_path / "audit.jsonl"
    with opened(path, max_bytes=1000, kept=3) as file:
        for number in range(100):
            file.write({"number": number, **ENTRY})
            written(file)
    files = [*(Path(f"{path}.{number}") for number in (3, 2, 1)), path]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert all(0 < file.stat().st_size <= 1000 for file in files)
    kept = numbers(*files)
    assert kept == list(range(100 - len(kept), 100))
    assert len(kept) > 3 * 5


def test_a_file_that_was_moved_is_opened_anew(tmp_path: Path) -> None:
    """As logrotate moves it; so is one that was removed."""
    path, moved = tmp_path / "audit.jsonl", tmp_path / "moved"
    with opened(path) as file:
        file.write({"number": 0})
        written(file)
        path.rename(moved)
        file.write({"number": 1})
        written(file)
        assert (numbers(moved), numbers(path)) == ([0], [1])
        path.unlink()
        file.write({"number": 2})
    assert (numbers(path), file.lost) == ([2], 0)


def test_two_servers_may_write_one_file(tmp_path: Path) -> None:
    """Each line is written once, whole, whichever of them rotates the file."""
    path, each = tmp_path / "audit.jsonl", 300
    program = (
        "import sys; from headway.audit import AuditFile\n"
        f"file = AuditFile({str(path)!r}, max_bytes=4000, kept=100)\n"
        "for number in range(int(sys.argv[1]), int(sys.argv[2])): file.write({'number': number, 'text': 'x' * 80})\n"
        "file.close(); assert file.lost == 0"
    )
    bounds = [(0, each), (each, 2 * each)]
    servers = [subprocess.Popen([sys.executable, "-c", program, str(first), str(end)]) for first, end in bounds]
    assert [server.wait() for server in servers] == [0, 0]
    assert sorted(numbers(*tmp_path.iterdir())) == list(range(2 * each))


def test_trouble_is_one_warning_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its end is another one; what was lost meanwhile is lost, and nothing was raised."""
    caplog.set_level(logging.INFO, "headway.audit")
    folder, away = tmp_path / "logs", tmp_path / "away"
    folder.mkdir()
    path = folder / "audit.jsonl"
    with opened(path) as file:
        file.write({"number": 0})
        written(file)
        folder.rename(away)
        for number in range(1, 6):
            file.write({"number": number})
        written(file)
        assert file.lost == 5
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "No such file or directory" in caplog.text
        folder.mkdir()
        file.write({"number": 6})
        written(file)
    assert (numbers(path), len(caplog.records), file.lost) == ([6], 2, 5)
    assert "5 lines are lost" in caplog.text


def test_a_full_disk_tears_no_later_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The half of a line is taken back, and all others can be read."""
    real, room = os.write, [10, 0]

    def nearly_full(descriptor: int, content: bytes) -> int:
        if threading.current_thread() is threading.main_thread() or not room:
            return real(descriptor, content)
        if not (left := room.pop(0)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, content[:left])

    monkeypatch.setattr(audit_file.os, "write", nearly_full)
    path = tmp_path / "audit.jsonl"
    with opened(path) as file:
        for number in range(4):
            file.write({"number": number})
    assert (numbers(path), file.lost) == ([2, 3], 2)


def test_half_a_line_that_another_server_has_written_behind_stays_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the other one is taken back."""
    real, path, torn = os.write, tmp_path / "audit.jsonl", threading.Event()

    def nearly_full(descriptor: int, content: bytes) -> int:
        if threading.current_thread() is threading.main_thread() or torn.is_set():
            return real(descriptor, content)
        torn.set()
        written = real(descriptor, content[:10])
        with path.open("ab") as other:
            other.write(b'{"number":7}\n')
        return written

    monkeypatch.setattr(audit_file.os, "write", nearly_full)
    with opened(path) as file:
        for number in range(3):
            file.write({"number": number})
    lines = [line for line in path.read_text().splitlines() if line]
    assert (lines[0], [json.loads(line)["number"] for line in lines[1:]]) == ('{"number":{"number":7}', [1, 2])
    assert file.lost == 1


def test_a_disk_that_hangs_holds_up_no_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines wait up to a bound; those beyond it are lost and counted."""
    goes_on, hangs = threading.Event(), threading.Event()
    real = AuditFile._append

    def hanging(self: AuditFile, line: bytes) -> None:
        hangs.set()
        goes_on.wait()
        real(self, line)

    monkeypatch.setattr(AuditFile, "_append", hanging)
    path = tmp_path / "audit.jsonl"
    with opened(path) as file:
        file.write({"number": 0})
        hangs.wait()
        for number in range(1, audit_file.MAX_WAITING + 11):
            file.write({"number": number})
        assert file.lost == 10
        goes_on.set()
    assert numbers(path) == list(range(audit_file.MAX_WAITING + 1))


def test_a_closed_file_takes_nothing_and_raises_nothing(tmp_path: Path) -> None:
    """A second close does nothing; a file without a line has no thread."""
    threads = threading.active_count()
    path = tmp_path / "audit.jsonl"
    file = AuditFile(path)
    assert threading.active_count() == threads
    file.close()
    file.close()
    file.write({"number": 0})
    assert (path.read_text(), file.lost) == ("", 1)


def test_it_is_named_by_the_environment(tmp_path: Path) -> None:
    """Without a name there is none."""
    assert AuditFile.from_environment({}) is None
    path = tmp_path / "audit.jsonl"
    file = AuditFile.from_environment({"HEADWAY_AUDIT_FILE": str(path), "HEADWAY_AUDIT_FILE_BYTES": "65536"})
    assert file is not None
    file.write({"number": 0})
    file.close()
    assert (numbers(path), file._max_bytes) == ([0], 65536)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"HEADWAY_AUDIT_FILE": "{}/none/audit.jsonl"}, "No such file or directory"),
        ({"HEADWAY_AUDIT_FILE": "{}"}, "Is a directory"),
        ({"HEADWAY_AUDIT_FILE": "/dev/null"}, "not a regular file"),
        ({"HEADWAY_AUDIT_FILE": "{}/a\0b"}, "embedded null byte"),
        ({"HEADWAY_AUDIT_FILE": "{}/a", "HEADWAY_AUDIT_FILE_BYTES": "65535"}, "FILE_BYTES: a whole number"),
    ],
    ids=["no folder", "a folder", "a device", "no name", "too small"],
)
def test_a_file_that_cannot_be_used_is_an_error_at_the_start(
    tmp_path: Path, environment: dict[str, str], words: str
) -> None:
    """One line that names the variable."""
    with pytest.raises(HeadwayError, match=words) as caught:
        AuditFile.from_environment({name: text.replace("{}", str(tmp_path)) for name, text in environment.items()})
    assert "HEADWAY_AUDIT_FILE" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_line_that_the_power_cut_spoils_no_other_one(tmp_path: Path) -> None:
    """The next server begins a line of its own, also where the file was put in place while it ran."""
    path = tmp_path / "audit.jsonl"
    path.write_text('{"number":0}\n{"num')
    with opened(path) as file:
        file.write({"number": 1})
        written(file)
        path.rename(tmp_path / "moved")
        path.write_text('{"num')
        file.write({"number": 2})
        written(file)
    assert (tmp_path / "moved").read_text() == '{"number":0}\n{"num\n{"number":1}\n'
    assert path.read_text() == '{"num\n{"number":2}\n'


def test_a_file_that_may_not_be_moved_grows_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In a folder of another user: one warning, no line is lost, and no other server waits for the lock."""
    path = tmp_path / "audit.jsonl"

    def replace(self: Path, target: Path) -> Path:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "replace", replace)
    with opened(path, max_bytes=500) as file:
        for number in range(20):
            file.write({"number": number, **ENTRY})
        written(file)
        with path.open() as other:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert file.lost == 0
    assert numbers(path) == list(range(20))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "cannot be rotated: Permission denied" in caplog.text


def test_a_file_that_may_be_appended_to_and_not_be_read_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a folder of logs may be set up."""
    path, real = tmp_path / "audit.jsonl", os.open

    def opening(name: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_ACCMODE == os.O_RDWR:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(name, flags, mode)

    path.write_text('{"number":0}\n')
    monkeypatch.setattr(os, "open", opening)
    with opened(path) as file:
        file.write({"number": 1})
        written(file)
    monkeypatch.undo()
    assert numbers(path) == [0, 1]


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    """Opening it would wait for a reader."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match=r"not a regular file|No such device"):
        AuditFile(tmp_path / "pipe")
