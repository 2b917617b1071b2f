"""The folder of the engine's sockets, this server's own, so that the files of dead engines can be removed.

vLLM's processes talk through Unix sockets in the temporary folder, under random names. A killed process removes none of
its sockets, and nothing tells whose they are. A folder that the operator has named (``VLLM_RPC_BASE_PATH``) is left
alone.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from headway.errors import HeadwayError
from headway.vllm_adapter.process.parent_watch import remove_at_the_end

VARIABLE = "VLLM_RPC_BASE_PATH"
_PREFIX = "headway-sockets-"
#: A socket's path has 107 bytes at most (sun_path); vLLM's names have 36.
_MAX_FOLDER_BYTES = 107 - 1 - 36
_SHORT = "/tmp"  # noqa: S108 - a folder of a random name is made in it, for this user alone
_BOUND = Path("/proc/net/unix")
_PATH_FIELD = 7


def short_folder(prefix: str) -> Path:
    """Make a folder for this user alone in which the path of a socket is not too long: beside the temporary files, or
    where their path is long in /tmp. Raises HeadwayError where that is impossible.
    """
    usual = tempfile.gettempdir()
    for parent in (usual, _SHORT):
        with suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            if len(os.fsencode(folder)) <= _MAX_FOLDER_BYTES:
                return folder
            folder.rmdir()
    most = _MAX_FOLDER_BYTES - len(prefix) - 9
    advice = f"set TMPDIR to a folder that exists, of at most {most} bytes"
    raise HeadwayError(f"no socket can be made in {usual[:40]!r} or {_SHORT}; {advice}")


def own_folder() -> Path | None:
    """Make the folder and have vLLM use it; None where the operator has chosen one. Raises HeadwayError."""
    if os.environ.get(VARIABLE):
        return None
    folder = short_folder(_PREFIX)
    os.environ[VARIABLE] = str(folder)
    return folder


def remove_when_killed() -> None:
    """Have the folder removed after the end of this process, also after a kill."""
    if (folder := _ours()) is not None:
        remove_at_the_end(str(folder))


def remove_unbound() -> int:
    """Remove the sockets of dead engines, which no process has bound; returns their number."""
    folder = _ours()
    if folder is None:
        return 0
    try:
        there = list(folder.iterdir())  # first: a socket that comes meanwhile is not in it
        lines = (line.split(maxsplit=_PATH_FIELD) for line in _BOUND.read_text(errors="replace").splitlines())
        bound = {fields[_PATH_FIELD] for fields in lines if len(fields) > _PATH_FIELD}
        stale = [path for path in there if str(path) not in bound]
    except OSError:
        return 0
    for path in stale:
        with suppress(OSError):
            path.unlink()
    return len(stale)


def remove_folder(folder: Path | None) -> None:
    """Remove the folder, at the end of the server."""
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.environ.pop(VARIABLE, None)


def _ours() -> Path | None:
    folder = Path(os.environ.get(VARIABLE, ""))
    return folder if folder.name.startswith(_PREFIX) else None
