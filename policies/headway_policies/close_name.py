"""The words on an unknown name: the known names, and the one that is closest."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import Final

#: A longer name is compared by its beginning: the time of a comparison grows with the square of its length.
_MOST_CHARS: Final = 64
_SHOWN_CHARS: Final = 40


def did_you_mean(name: str, known: Iterable[str], before: str = "; ") -> str:
    """The question ``did you mean NAME?`` with the closest of the known names, behind ``before``.

    Empty where no name is close. Upper and lower case do not matter. The text holds nothing of the unknown name.
    """
    lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name[:_MOST_CHARS].lower(), lower, n=1)
    return f"{before}did you mean {lower[close[0]]}?" if close else ""


def no_such(kind: str, name: str, known: Collection[str]) -> str:
    """The error of an unknown name: ``there is no class 'gold'; the classes are: normal, batch``, and the question."""
    kinds = f"{kind}es" if kind.endswith("s") else f"{kind}s"
    return f"there is no {kind} {name[:_SHOWN_CHARS]!r}; the {kinds} are: {', '.join(known)}{did_you_mean(name, known)}"
