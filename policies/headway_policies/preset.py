"""What is switched together?

A preset bundles every setting a policy reads. It is a TOML file, validated whole: an unknown key, a wrong type or a
value out of range is refused with one line that names the file, the key and what is allowed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from headway_policies.batching import Batching
from headway_policies.classes import PriorityClass

Setting = str | int | float | bool | list[str]
_NAME = r"^[a-z0-9][a-z0-9_-]{0,39}$"
_MAX_CLASSES = 8
_IN_TOML = {"tuple_type": "must be a list", "dict_type": "must be a table", "model_type": "must be a table"}


class PresetError(ValueError):
    """A preset that cannot be used. Its text is one line for the person who wrote the file."""


class Queue(BaseModel):
    """The bound on waiting requests over all classes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    max_waiting: int = Field(ge=0, le=1_000_000)


class Warmup(BaseModel):
    """What runs before the server is ready: one request alone, then a full batch."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    prompt_tokens: int = Field(default=64, ge=1, le=100_000)
    output_tokens: int = Field(default=8, ge=1, le=10_000)


class Preset(BaseModel):
    """One complete, validated set of policies."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str = Field(pattern=_NAME)
    description: str = Field(default="", max_length=400)
    default_class: str
    batching: Batching
    queue: Queue
    classes: dict[Annotated[str, Field(pattern=_NAME)], PriorityClass] = Field(min_length=1, max_length=_MAX_CLASSES)
    warmup: Warmup = Warmup()

    @field_validator("classes")
    @classmethod
    def _distinct(cls, classes: dict[str, PriorityClass]) -> dict[str, PriorityClass]:
        priorities = [one.priority for one in classes.values()]
        if len(set(priorities)) < len(priorities):
            raise ValueError("each class needs a priority of its own")
        tiers = [tier for one in classes.values() for tier in one.service_tiers]
        if len(set(tiers)) < len(tiers):
            raise ValueError("a service_tier can belong to one class only")
        return classes

    @model_validator(mode="after")
    def _default_exists(self) -> Preset:
        if self.default_class not in self.classes:
            known = ", ".join(sorted(self.classes))
            raise ValueError(f"default_class {self.default_class!r} is not among the classes: {known}")
        return self

    def by_urgency(self) -> list[str]:
        """The class names, most urgent first."""
        return sorted(self.classes, key=lambda name: -self.classes[name].priority)

    def class_for_tier(self, service_tier: str) -> str | None:
        """The class an OpenAI or Anthropic ``service_tier`` stands for, or None."""
        for name, terms in self.classes.items():
            if service_tier in terms.service_tiers:
                return name
        return None

    def class_for_priority(self, priority: int) -> str:
        """The class for a numeric priority (larger = more urgent): the highest one not above it, else the lowest."""
        ranked = self.by_urgency()
        return next((name for name in ranked if self.classes[name].priority <= priority), ranked[-1])

    def settings(self) -> dict[str, Setting]:
        """Every setting under its dotted key, in the order of the file."""
        return dict(_flatten(self.model_dump(mode="json", exclude={"name", "description"})))


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that differs between two presets; None where one of them does not have it."""

    setting: str
    before: Setting | None
    after: Setting | None


def changes(old: Preset, new: Preset) -> list[Change]:
    """What a switch from ``old`` to ``new`` changes, setting by setting."""
    before, after = old.settings(), new.settings()
    keys = list(before) + [key for key in after if key not in before]
    return [Change(key, before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)]


def parse_preset(text: str, source: str) -> Preset:
    """Read a preset from TOML text; ``source`` names it in errors. Raises PresetError."""
    try:
        return Preset.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise PresetError(f"{source}: not valid TOML: {error}") from None
    except ValidationError as error:
        raise PresetError(f"{source}: {_explain(error)}") from None


def load_preset(path: str | Path) -> Preset:
    """Read a preset file. Raises PresetError in one line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise PresetError(f"{path}: cannot be read: {why}") from None
    return parse_preset(text, str(path))


def bundled_presets() -> dict[str, Preset]:
    """The presets that ship with Headway, fewest seats first."""
    folder = resources.files(__package__) / "presets"
    texts = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}
    presets = [parse_preset(text, name) for name, text in texts.items() if name.endswith(".toml")]
    return {one.name: one for one in sorted(presets, key=lambda one: (one.batching.seats, one.name))}


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Setting]]:
    flat: list[tuple[str, Setting]] = []
    for key, value in tree.items():
        path = f"{prefix}{key}"
        flat += _flatten(value, f"{path}.") if isinstance(value, Mapping) else [(path, value)]
    return flat


def _explain(error: ValidationError) -> str:
    """Every complaint in one line: key, what is wrong with it, what is allowed."""
    complaints = [_complaint(detail["loc"], detail["msg"], detail["type"]) for detail in error.errors()]
    return " ".join("; ".join(complaints).split())


def _complaint(where: tuple[int | str, ...], message: str, kind: str) -> str:
    key = ".".join(str(part) for part in where if part != "[key]")
    if kind == "extra_forbidden":
        return f"{key}: unknown key; allowed here: {', '.join(_allowed(where))}"
    if kind == "missing":
        return f"{key}: missing"
    text = _IN_TOML.get(kind, message.removeprefix("Value error, "))
    text = text.replace("Input should be", "must be").replace("String should", "must")
    return f"{key}: {text}" if key else text


def _allowed(where: tuple[int | str, ...]) -> list[str]:
    sections: dict[str, type[BaseModel]] = {
        "batching": Batching,
        "queue": Queue,
        "classes": PriorityClass,
        "warmup": Warmup,
    }
    model = sections.get(str(where[0]), Preset) if len(where) > 1 else Preset
    return sorted(model.model_fields)
