"""Secrets from an environment variable, or from a file that one names.

Never from an argument, which every user of the machine can read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headway_policies.text_file import TextFileError, read_text_file

MAX_FILE_BYTES = 16 * 1024


class SecretFileError(ValueError):
    """The file that ``variable`` names cannot be read, for this ``cause``. The text is one line without the secret."""

    def __init__(self, variable: str, path: str, cause: str) -> None:
        super().__init__(f"{variable} ({path}): cannot be read: {cause}")
        self.variable = variable
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret, which stays out of the repr, and the ``variable`` it came from; ``path`` where that names a file."""

    text: str = field(repr=False)
    variable: str
    path: str | None = None

    @property
    def source(self) -> str:
        """The variable, with the file that it names."""
        return self.variable if self.path is None else f"{self.variable} ({self.path})"


def find_secret(variable: str, environment: Mapping[str, str]) -> Secret | None:
    """The text of ``variable``, or of the file that ``variable_FILE`` names; None where neither is set.

    The text of a file is stripped, and may be empty; that of a variable is as it stands. Raises SecretFileError.
    """
    if text := environment.get(variable):
        return Secret(text, variable)
    name = f"{variable}_FILE"
    path = environment.get(name, "").strip()
    if not path:
        return None
    try:
        return Secret(read_text_file(path, MAX_FILE_BYTES).strip(), name, path)
    except TextFileError as cause:
        raise SecretFileError(name, path, str(cause)) from None


def is_one_word(text: str) -> bool:
    """Whether a text is printable ASCII without spaces, as a header can carry it."""
    return text.isascii() and text.isprintable() and " " not in text
