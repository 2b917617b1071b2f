"""The kinds of environment variables: how each is read, and the one line that is said of a wrong value."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar, Final, Generic, Self, TypeVar, overload

from headway.api.secret_text import Secret, SecretFileError, find_secret, is_one_word
from headway.errors import HeadwayError

PREFIX: Final = "HEADWAY_"

T = TypeVar("T")
D = TypeVar("D")

_MAX_SECONDS = 3600.0
_MAX_DIGITS = 15
_MAX_KEY_CHARS = 16 * 1024


class Given:
    """An environment; None: that of this process, as it is whenever a variable is asked for.

    ``of`` says in words what reads the variables of a subclass.
    """

    of: ClassVar[str]

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self.given = os.environ if given is None else given


class Variable(Generic[T]):
    """A variable, named by its attribute of a ``Given``. An instance reads it there; the class has the variable.

    ``default`` holds where it is not set, or blank; ``usual`` says so in words, and ``wanted`` which values are right.
    """

    name = of = ""

    def __init__(
        self, default: T, meaning: str, parse: Callable[[str], T], wanted: str, usual: str | None = None
    ) -> None:
        shown = f"`{default}`" if isinstance(default, str) else str(default)
        self.default, self.meaning, self.wanted, self._parse = default, meaning, wanted, parse
        self.usual = usual or ("none" if default in (None, ()) else shown)

    def __set_name__(self, owner: type[Given], name: str) -> None:
        self.name, self.of = PREFIX + name.upper(), owner.of

    @overload
    def __get__(self, environment: None, owner: type[Given]) -> Self: ...
    @overload
    def __get__(self, environment: Given, owner: type[Given]) -> T: ...
    def __get__(self, environment: Given | None, owner: type[Given]) -> Self | T:
        return self if environment is None else self.read(environment.given)

    @property
    def names(self) -> tuple[str, ...]:
        """All names by which it can be set."""
        return (self.name,)

    def read(self, given: Mapping[str, str]) -> T:
        """The value. Raises HeadwayError in one line that names the variable, the value and what would be right."""
        text = given.get(self.name, "")
        try:
            return self._parse(text) if text.strip() else self.default
        except ValueError:
            raise HeadwayError(f"{self.name}: {self.wanted} is needed, not {text[:40]!r}") from None


class SecretVariable(Variable[Secret | None]):
    """A secret in the variable, or in the file that its twin with ``_FILE`` names. No error shows it."""

    def __init__(
        self, noun: str, meaning: str, least: int = 1, most: int = _MAX_KEY_CHARS, advice: str = "", usual: str = "none"
    ) -> None:
        wanted = f"{f'{least} to {most} ' if least > 1 else ''}printable ASCII characters without spaces"
        super().__init__(None, meaning, lambda text: None, f"a {noun} of {wanted}", usual)
        self._noun, self._least, self._most, self._advice = noun, least, most, advice

    @property
    def names(self) -> tuple[str, ...]:
        """The variable, and the one that names a file."""
        return (self.name, f"{self.name}_FILE")

    def read(self, given: Mapping[str, str]) -> Secret | None:
        """The secret, None where neither is set. Raises HeadwayError in one line."""
        try:
            found = find_secret(self.name, given)
        except SecretFileError as error:
            raise HeadwayError(f"{error}; correct the path, or the rights of the file") from None
        if found is None:
            return None
        text = found.text.strip()
        if not text:
            raise HeadwayError(f"{found.source}: is empty; write the {self._noun} into it")
        fits = self._least <= len(text) <= self._most
        if not fits or not is_one_word(text):
            count = "" if fits else f", not {len(text)} characters"
            raise HeadwayError(f"{found.source}: {self.wanted} is needed{count}{self._advice}")
        return replace(found, text=text)


class _Verbatim(Variable[str | None]):
    """A text as it stands, for which empty is another value than unset."""

    def read(self, given: Mapping[str, str]) -> str | None:
        return given.get(self.name)


def text(default: D, meaning: str, wanted: str = "a text", usual: str | None = None) -> Variable[str | D]:
    """A text without the spaces around it."""
    return Variable[str | D](default, meaning, str.strip, wanted, usual)


def verbatim(meaning: str, wanted: str = "a text", usual: str | None = None) -> Variable[str | None]:
    """A text as it stands; None where the variable is not set."""
    return _Verbatim(None, meaning, str, wanted, usual)


def listed(meaning: str, wanted: str, usual: str | None = None) -> Variable[tuple[str, ...]]:
    """Texts with commas between them."""

    def parse(text: str) -> tuple[str, ...]:
        return tuple(part for word in text.split(",") if (part := word.strip()))

    return Variable[tuple[str, ...]]((), meaning, parse, f"{wanted}, with commas", usual)


def choice(words: tuple[str, ...], meaning: str) -> Variable[str]:
    """A choice of these words; the first is the usual one."""
    return Variable[str](words[0], meaning, lambda text: words[words.index(text)], " or ".join(words))


def flag(default: bool, meaning: str) -> Variable[bool]:
    """A switch, on or off."""
    return Variable[bool](default, meaning, lambda text: bool(("0", "1").index(text)), "1 or 0", f"`{default:d}`")


def whole(default: D, meaning: str, least: int = 1, usual: str | None = None) -> Variable[int | D]:
    """A whole number."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS and int(text) >= least):
            raise ValueError(text)
        return int(text)

    wanted = "a positive whole number" if least == 1 else f"a whole number of at least {least}"
    return Variable[int | D](default, meaning, parse, wanted, usual)


def seconds(default: float, meaning: str) -> Variable[float]:
    """A length of time."""

    def parse(text: str) -> float:
        if not 0 < float(text) <= _MAX_SECONDS:
            raise ValueError(text)
        return float(text)

    wanted = f"a number of seconds above 0, at most {_MAX_SECONDS:g},"
    return Variable[float](default, meaning, parse, wanted, f"{default:g}")
