"""The flags of ``headway serve``: Headway's own are taken out, vLLM's are left unchanged.

argparse is not used here on purpose: it would guess at abbreviations, read negative numbers as flags and reorder what
it does not know. A word is ours only if it is exactly one of our flags. After ``--`` everything is vLLM's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headway.settings import SERVE_FLAGS, Environment
from headway_tools.console.exits import UsageError

DEFAULT_PRESET = Environment.preset.default
_SWITCHES = tuple(flag for flag, value in SERVE_FLAGS.items() if not value)


@dataclass(frozen=True, slots=True)
class ServeWords:
    """Our part of the command line (None where not given), and vLLM's words unchanged and in order."""

    preset: str | None = None
    preset_dir: str | None = None
    warmup: bool = True
    quick_start: bool = False
    show_help: bool = False
    engine: tuple[str, ...] = ()


def split(words: Sequence[str]) -> ServeWords:
    """Take our flags out of ``words``. Raises UsageError where one of ours lacks its value or has one too many."""
    ours, engine, rest = ServeWords(), list[str](), list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            engine += rest
            break
        flag, has_value, value = _flag(word)
        if flag == "--preset":
            ours = replace(ours, preset=value if has_value else _next(flag, rest))
        elif flag == "--preset-dir":
            ours = replace(ours, preset_dir=value if has_value else _next(flag, rest))
        elif flag in _SWITCHES:
            if has_value:
                raise UsageError(f"{flag} takes no value")
            ours = replace(ours, warmup=False) if flag == "--no-warmup" else replace(ours, quick_start=True)
        elif word in {"-h", "--help"}:
            ours = replace(ours, show_help=True)
        else:
            engine.append(word)
    return replace(ours, engine=tuple(engine))


def model_of(engine: Sequence[str]) -> str | None:
    """The model vLLM will serve: its first word, or ``--model``."""
    if engine and not engine[0].startswith("-"):
        return engine[0]
    return value_of(engine, "--model")


def value_of(engine: Sequence[str], flag: str) -> str | None:
    """The last value given to a vLLM flag (``--flag V`` or ``--flag=V``, underscores as dashes), or None."""
    found = None
    for place, word in enumerate(engine):
        name, has_value, value = _flag(word)
        if name == flag:
            found = value if has_value else next(iter(engine[place + 1 : place + 2]), None)
    return found


def has(engine: Sequence[str], flag: str) -> bool:
    """Whether a vLLM flag is given."""
    return any(_flag(word)[0] == flag for word in engine)


def with_defaults(engine: Sequence[str], defaults: Sequence[str]) -> tuple[str, ...]:
    """Put ``defaults`` right behind the model, before the user's own flags: vLLM lets the last one win."""
    model = 1 if engine and not engine[0].startswith("-") else 0
    return (*engine[:model], *defaults, *engine[model:])


def _flag(word: str) -> tuple[str, bool, str]:
    """A word as (flag with dashes, whether ``=`` follows, the text behind it)."""
    if not word.startswith("--"):
        return word, False, ""
    name, equals, value = word.partition("=")
    return name.replace("_", "-"), bool(equals), value


def _next(flag: str, rest: list[str]) -> str:
    if not rest or rest[0].startswith("-"):
        raise UsageError(f"{flag} needs a value, for example: headway serve MODEL --preset {DEFAULT_PRESET}")
    return rest.pop(0)
