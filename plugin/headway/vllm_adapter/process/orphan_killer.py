"""The process that ends what a killed server leaves behind; ``parent_watch`` starts it, and says why.

The process runs as a script, without Headway, site packages or an environment: a few MB, and nothing that could delay
it. Its standard input is a pipe whose other end only the server has. On the first line is the server's mark; the lines
after it name files and folders to remove. The end of the input is the end of the server, however it came. A child of
the server that has not reached its own program yet still has that pipe open, so no process is being started then.

Resource trackers (multiprocessing) end last: they remove the shared memory of the others.
"""

from __future__ import annotations

import os
import signal
import sys
import time

_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOOK_S = 0.1
_CLEAN_LOOKS = 3
_TRACKERS_S = 2.0
_AT_MOST_S = 30.0


def belonging(mark: str) -> list[int]:
    """The living processes of this user that were started below the server with this mark, except this process."""
    return [
        int(name)
        for name in os.listdir("/proc")
        if name.isdigit() and int(name) != os.getpid() and _belongs(name, mark)
    ]


def _belongs(pid: str, mark: str) -> bool:
    """Whether a process has the mark, in its environment or as its marked file.

    Every program started below the server inherits the environment. A process that the server itself only forked has
    the server's old environment, and still the server's marked file.
    """
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return False
        with open(f"/proc/{pid}/environ", "rb") as environment:
            if mark.encode() in environment.read():
                return True
        return any(mark in _target(f"/proc/{pid}/fd/{descriptor}") for descriptor in os.listdir(f"/proc/{pid}/fd"))
    except OSError:  # it ended, or is not ours to look at
        return False


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _is_tracker(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as command:
            return b"resource_tracker" in command.read()
    except OSError:
        return False


def end_all(mark: str) -> None:
    """Kill until several searches have found no process. A process that cannot be killed is left after 30 seconds."""
    began_s, clean = time.monotonic(), 0
    while clean < _CLEAN_LOOKS and (past_s := time.monotonic() - began_s) < _AT_MOST_S:
        found = belonging(mark)
        clean = 0 if found else clean + 1
        for pid in found:
            if past_s > _TRACKERS_S or not _is_tracker(pid):
                _kill(pid)
        time.sleep(_LOOK_S)


def below(path: str) -> list[str]:
    """The paths in a folder that contains no folders; none for a file."""
    return [os.path.join(path, name) for name in os.listdir(path)] if os.path.isdir(path) else []


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:  # it has ended
        return


def main() -> None:
    """Wait for the server's end, then clear up."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    mark, *files = sys.stdin.buffer.read().decode().splitlines() or [""]
    if mark:
        end_all(mark)
    for path in files:
        for name in [*below(path), path]:
            try:
                (os.rmdir if os.path.isdir(name) else os.unlink)(name)
            except OSError:  # the server has removed it
                continue


if __name__ == "__main__":
    main()
