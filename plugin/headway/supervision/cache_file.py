"""The folder in which a server keeps what it has learnt for the next server, and its files.

A file that cannot be read or written costs one warning: the next server then begins anew.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel

from headway.settings import Environment
from headway_policies.text_file import TextFileError, read_text_file

log = logging.getLogger(__name__)

Content = TypeVar("Content", bound=BaseModel)


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder for the knowledge that a server keeps for the next one; None where nothing is kept."""
    folder = Environment(environment).cache_dir
    if folder is None:
        caches = environment.get("XDG_CACHE_HOME") or "~/.cache"
        folder = str(Path(environment.get("VLLM_CACHE_ROOT") or f"{caches}/vllm") / "headway")
    return Path(os.path.expanduser(folder)) if folder else None


class CacheFile(Generic[Content]):
    """A JSON file of that folder, at most ``max_bytes`` long; ``subject`` begins its warnings: "the limit is".

    ``kept`` is what the file says, as far as this server knows.
    """

    def __init__(self, path: Path, model: type[Content], max_bytes: int, subject: str) -> None:
        self.kept: Content | None = None
        self._path = path
        self._model = model
        self._max_bytes = max_bytes
        self._subject = subject
        self._failed = False

    def recall(self, take: Callable[[Content], object]) -> None:
        """Hand over what the file says, if there is one; ``take`` raises ValueError for what cannot be used."""
        if not os.path.exists(self._path):
            return
        try:
            content = self._model.model_validate_json(read_text_file(self._path, self._max_bytes))
            take(content)
        except TextFileError as error:
            log.warning("%s not used: %s: %s", self._subject, self._path, error)
        except ValueError:  # pydantic's is one, too
            log.warning("%s not used: %s: not what Headway writes", self._subject, self._path)
        else:
            self.kept = content

    def keep(self, content: Content) -> None:
        """Write the file whole or not at all, if it would say anything else: a reader sees the old or the new text."""
        if content == self.kept:
            return
        part = self._path.with_suffix(f".{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(content.model_dump_json(), encoding="utf-8")
            part.replace(self._path)
        except OSError as error:
            if not self._failed:
                log.warning("%s not kept: %s: %s", self._subject, self._path, error.strerror)
            self._failed = True
        else:
            self.kept = content
