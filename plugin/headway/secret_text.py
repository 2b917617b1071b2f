"""Secrets from an environment variable, or from a file that one names.

From the environment, or from a file that the environment names: never from an argument, which every user can read.
"""

from __future__ import annotations

from collections.abc import Mapping

from headway.errors import HeadwayError
from headway_policies.text_file import TextFileError, read_text_file

MAX_FILE_BYTES = 16 * 1024


def find_secret(
    variable: str, environment: Mapping[str, str], error: type[HeadwayError] = HeadwayError
) -> tuple[str, str]:
    """The text of ``variable``, or of the file that ``variable_FILE`` names, and how to call where it came from.

    The text is empty where neither says anything. Raises ``error`` for a file that cannot be read; no text is in it.
    """
    text, path = environment.get(variable), environment.get(f"{variable}_FILE")
    if text or not path:
        return text or "", variable
    source = f"{variable}_FILE ({path})"
    try:
        return read_text_file(path, MAX_FILE_BYTES).strip(), source
    except TextFileError as cause:
        raise error(f"{source}: cannot be read: {cause}") from None


def is_one_word(text: str) -> bool:
    """Whether it is printable ASCII without spaces, as a header can carry it."""
    return text.isascii() and text.isprintable() and " " not in text
