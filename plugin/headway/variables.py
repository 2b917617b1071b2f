"""Numbers in the server's environment, read and checked before anything is started."""

from __future__ import annotations

from collections.abc import Mapping

from headway.errors import HeadwayError

_MAX_SECONDS = 3600.0
_MAX_DIGITS = 15


def whole_number(environment: Mapping[str, str], variable: str, usual: int, *, least: int = 1) -> int:
    """The value of a variable, ``usual`` where it is not set. Raises HeadwayError in one line that names it."""
    text = environment.get(variable) or str(usual)
    digits = text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
    if not digits or int(text) < least:
        wanted = "a positive whole number" if least == 1 else f"a whole number of at least {least}"
        raise HeadwayError(f"{variable}: {wanted} is needed, not {text[:40]!r}")
    return int(text)


def seconds(environment: Mapping[str, str], variable: str, usual_s: float) -> float:
    """The same for a length of time: above 0, an hour at most."""
    text = environment.get(variable) or str(usual_s)
    try:
        value_s = float(text)
    except ValueError:
        value_s = 0.0
    if not 0 < value_s <= _MAX_SECONDS:
        wanted = f"a number of seconds above 0, at most {_MAX_SECONDS:g}"
        raise HeadwayError(f"{variable}: {wanted}, is needed, not {text[:40]!r}")
    return value_s
