"""The listing of the servers of a fleet: a folder with a file for each, as Prometheus' file discovery reads them.

A file of a process that has ended without removing it is removed by the next replica that starts on this machine.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import psutil

_NAME = re.compile(r"server-(\d+)-.*\.json")


class Listing:
    """The file of one server, by the name of its replica."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"server-{os.getpid()}-{name}.json"
        self._name = name
        for path in folder.glob("server-*.json"):
            found = _NAME.fullmatch(path.name)
            if found and not psutil.pid_exists(int(found[1])):
                path.unlink(missing_ok=True)

    def put(self, address: str) -> None:
        """The server listens there; a reader never sees half a file."""
        unfinished = self._path.with_suffix(".tmp")
        unfinished.write_text(json.dumps([{"targets": [address], "labels": {"replica": self._name}}]))
        unfinished.replace(self._path)

    def remove(self) -> None:
        """The server has ended."""
        self._path.unlink(missing_ok=True)


def addresses(folder: Path) -> dict[str, str]:
    """Where the servers listen, by the name of their replica."""
    found = {}
    for path in sorted(folder.glob("server-*.json")):
        (one,) = json.loads(path.read_text())
        found[str(one["labels"]["replica"])] = str(one["targets"][0])
    return found
