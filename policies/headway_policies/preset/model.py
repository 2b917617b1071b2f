"""The preset: every setting that a policy reads, as one validated model.

A preset is a TOML file, validated as a whole: an unknown key, a wrong type or a value out of range is refused with one
line that names the file, the key and what is allowed. A file may extend a bundled preset or another file
(``extends``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from headway_policies.batching import Batching, make_window
from headway_policies.close_name import did_you_mean
from headway_policies.engine import Recovery, Warmup
from headway_policies.fallback import Fallback
from headway_policies.import_path import FAILURES, cause, find_class
from headway_policies.limits import LimitSettings, make_limit
from headway_policies.memory import Memory
from headway_policies.preset.errors import MISSING, ContradictionError, Issue, PresetError, explain, shown
from headway_policies.preset.extends import read_table, read_text
from headway_policies.queueing import OrderSettings, QueueSettings, make_discipline, make_order
from headway_policies.request import PriorityClass, shortest
from headway_policies.step import StepSettings

__all__ = [
    "Change",
    "Preset",
    "PresetError",
    "Setting",
    "Warmup",
    "bundled_presets",
    "changes",
    "load_preset",
    "parse_preset",
]

Setting = str | int | float | bool | list[str] | list[int]
_NAME = r"^[a-z0-9][a-z0-9_-]{0,39}$"
_MAX_CLASSES = 8


class Preset(BaseModel):
    """A complete, validated set of policies."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str = Field(pattern=_NAME)
    description: str = Field(default="", max_length=400)
    default_class: str
    batching: Batching
    ordering: OrderSettings = OrderSettings()
    limit: LimitSettings = LimitSettings()
    step: StepSettings = StepSettings()
    queue: QueueSettings
    classes: dict[Annotated[str, Field(pattern=_NAME)], PriorityClass] = Field(min_length=1, max_length=_MAX_CLASSES)
    warmup: Warmup = Warmup()
    recovery: Recovery = Recovery()
    fallback: Fallback = Fallback()
    memory: Memory = Memory()

    @model_validator(mode="before")
    @classmethod
    def _limit_follows_objectives(cls, table: object) -> object:
        """A limit that states no ``inter_token_slo_ms`` keeps the shortest of the classes'."""
        if not isinstance(table, Mapping) or not isinstance(table.get("classes"), Mapping):
            return table
        limit, classes = _stated(table.get("limit", {})), map(_stated, table["classes"].values())
        stated = [terms.get("inter_token_slo_ms") for terms in classes if terms is not None]
        if limit is None or "inter_token_slo_ms" in limit or (least := shortest(stated)) is None:
            return table
        return {**table, "limit": {**limit, "inter_token_slo_ms": least}}

    @field_validator("description")
    @classmethod
    def _printable(cls, description: str) -> str:
        if not all(letter.isprintable() or letter in "\n\t" for letter in description):
            raise ValueError("has control characters, which a terminal would interpret")
        return description

    @field_validator("classes")
    @classmethod
    def _distinct(cls, classes: dict[str, PriorityClass]) -> dict[str, PriorityClass]:
        priorities = [terms.priority for terms in classes.values()]
        if len(set(priorities)) < len(priorities):
            raise ValueError("each class needs a priority of its own")
        tiers = [tier for terms in classes.values() for tier in terms.service_tiers]
        if len(set(tiers)) < len(tiers):
            raise ValueError("a service_tier can belong to one class only")
        return classes

    @model_validator(mode="after")
    def _consistent(self) -> Preset:
        issues = [*self._contradictions(), *self.unusable_policies()]
        if issues:
            raise ContradictionError(issues)
        return self

    def _contradictions(self) -> Iterator[Issue]:
        """Settings that are valid alone but contradict each other."""
        seats, limit = self.batching.seats, self.limit
        if self.default_class not in self.classes:
            known = ", ".join(sorted(self.classes))
            text = f"must be one of the classes: {known}{did_you_mean(self.default_class, self.classes)}"
            yield Issue("default_class", text, shown(self.default_class))
        shares = sum(terms.share or 0.0 for terms in self.classes.values())
        if shares > 1 + 1e-9:
            yield Issue("classes", f"the shares sum to {round(shares, 9)}, more than 1", str(round(shares, 9)))
        reserved = sum(self.classes[name].reserved_seats or 0 for name in self.by_urgency()[:-1])
        if reserved and reserved >= seats:
            text = f"{reserved} reserved_seats of {seats} leave none to the least urgent class"
            yield Issue("classes", text, str(reserved))
        too_large = [size for size in self.batching.preferred_batch_sizes if not 1 <= size <= seats]
        if too_large:
            text = f"{too_large[0]} is not between 1 and the {seats} seats"
            yield Issue("batching.preferred_batch_sizes", text, str(too_large[0]))
        yield from self._unfillable_batch()
        if limit.moves and not limit.min_seats <= seats <= (limit.max_seats or seats):
            yield Issue("batching.seats", f"{seats} is not between limit.min_seats and limit.max_seats", str(seats))

    def _unfillable_batch(self) -> Iterator[Issue]:
        """Batches that the queue is too small to fill: they would never be dispatched."""
        batching, queue = self.batching, self.queue
        if batching.strategy == "continuous":
            return
        room = min(queue.max_waiting, sum(terms.max_waiting for terms in self.classes.values()))
        if room == 0:
            yield Issue("queue.max_waiting", f"0 leaves no room in which a {batching.strategy} batch can gather", "0")
        elif (
            batching.strategy == "static"
            and batching.flush_after_s is None
            and room <= batching.bins * (batching.seats - 1)
        ):
            text = f"{room} may never fill a batch of {batching.seats}; set batching.flush_after_s"
            yield Issue("queue.max_waiting", text, str(room))

    def unusable_policies(self) -> Iterator[Issue]:
        """Policies whose import path names no class, or one that cannot be created."""
        terms = next(iter(self.classes.values()))
        makers: dict[str, Callable[[], object]] = {
            "ordering.inside": lambda: make_discipline(self.ordering.inside, terms),
            "ordering.between": lambda: make_order(self.ordering.model_copy(update={"inside": "fifo"}), self.classes),
            "limit.policy": lambda: make_limit(self.limit, self.batching.seats, None),
            "batching.window": lambda: make_window(self.batching.window, self.batching.window_ms),
        }
        for key, policy in self.named_policies().items():
            try:
                find_class(policy)
            except ValueError as error:
                yield Issue(key, str(error), shown(policy))
                continue
            try:
                makers[key]()
            except FAILURES as error:  # a custom policy may raise anything
                yield Issue(key, f"{policy} cannot be created: {cause(error)}", shown(policy))

    def named_policies(self) -> dict[str, str]:
        """The import paths of custom policies, under their dotted keys."""
        named = {
            "ordering.between": self.ordering.between,
            "ordering.inside": self.ordering.inside,
            "limit.policy": self.limit.policy,
            "batching.window": self.batching.window,
        }
        return {key: policy for key, policy in named.items() if ":" in policy}

    def by_urgency(self) -> list[str]:
        """The class names, most urgent first."""
        return sorted(self.classes, key=lambda name: -self.classes[name].priority)

    def class_for_tier(self, service_tier: str) -> str | None:
        """The class of an OpenAI or Anthropic ``service_tier``, or None."""
        for name, terms in self.classes.items():
            if service_tier in terms.service_tiers:
                return name
        return None

    def class_for_priority(self, priority: int) -> str:
        """The class for a numeric priority (larger = more urgent): the highest one not above it, else the lowest."""
        ranked = self.by_urgency()
        return next((name for name in ranked if self.classes[name].priority <= priority), ranked[-1])

    def bypass_seats(self) -> int:
        """The seats beside a batch; 0 where no batch is formed."""
        return 0 if self.batching.strategy == "continuous" else self.fallback.bypass_seats

    def max_seats(self) -> int | None:
        """The bound on the seats that the preset may use; None where its limit follows the engine to its ceiling."""
        limit = self.limit
        if limit.policy == "fixed" or limit.shadow:
            return self.batching.seats + self.bypass_seats()
        return None if limit.max_seats is None else limit.max_seats + self.bypass_seats()

    def settings(self) -> dict[str, Setting]:
        """Every setting that is set, under its dotted key, in the order of the file."""
        return dict(_flatten(self.model_dump(mode="json", exclude={"name", "description"}, exclude_none=True)))

    def stated(self) -> dict[str, Setting]:
        """The settings that are not at their defaults, in the same form."""
        dumped = self.model_dump(mode="json", exclude={"name", "description"}, exclude_none=True, exclude_defaults=True)
        return dict(_flatten(dumped))


@dataclass(frozen=True, slots=True)
class Change:
    """A setting that differs between two presets; None in a preset without it."""

    setting: str
    before: Setting | None
    after: Setting | None


def changes(old: Preset, new: Preset) -> list[Change]:
    """The changes of a switch from ``old`` to ``new``, setting by setting."""
    return differences(old.settings(), new.settings())


def differences(before: Mapping[str, Setting], after: Mapping[str, Setting]) -> list[Change]:
    """The settings that differ, in the order of the first, then those only the second has."""
    keys = list(before) + [key for key in after if key not in before]
    return [Change(key, before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)]


def parse_preset(text: str, source: str) -> Preset:
    """Read a preset from TOML text; ``source`` names it in errors, and ``extends`` is relative to it.

    A policy named by import path is imported. Raises PresetError in one line, with all errors: settings are compared
    with each other only when each is valid alone.
    """
    table, sources = read_table(text, source, _bundled_text)
    try:
        return Preset.model_validate(table)
    except ValidationError as error:
        issues = explain(error, Preset, sources)
        if len(sources) == 1 and any(issue.message == MISSING for issue in issues):
            issues.append(Issue("extends", 'not given; extends = "balanced" takes what is missing from that preset'))
        parents = ", ".join(parent for parent, _ in sources[1:])
        where = f"{source} (extends {parents})" if parents else source
        raise PresetError(f"{where}: {'; '.join(map(str, issues))}", issues) from None


def load_preset(path: str | Path) -> Preset:
    """Read a preset file. Raises PresetError in one line."""
    return parse_preset(read_text(path), str(path))


def bundled_presets() -> dict[str, Preset]:
    """The presets that ship with Headway, fewest seats first."""
    presets = [parse_preset(text, source) for source, text in map(_bundled_text, _bundled_names())]
    return {preset.name: preset for preset in sorted(presets, key=lambda preset: (preset.batching.seats, preset.name))}


def _bundled_names() -> list[str]:
    files = (resources.files(__package__) / "bundled").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def _bundled_text(name: str) -> tuple[str, str]:
    """The source of a bundled preset, for messages, and its text. Raises PresetError for an unknown name."""
    names = _bundled_names()
    if name not in names:
        known = ", ".join(names)
        text = f"there is no bundled preset {name[:60]!r} ({known}); a file needs a / or the suffix .toml"
        raise PresetError(f"{text}{did_you_mean(name, names)}")
    text = (resources.files(__package__) / "bundled" / f"{name}.toml").read_text(encoding="utf-8")
    return f"bundled {name}", text


def _stated(part: object) -> Mapping[str, Any] | None:
    """The stated fields of a table of a file, or of a model that a program has made; None for anything else."""
    if isinstance(part, BaseModel):
        return part.model_dump(exclude_unset=True)
    return part if isinstance(part, Mapping) else None


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Setting]]:
    flat: list[tuple[str, Setting]] = []
    for key, value in tree.items():
        path = f"{prefix}{key}"
        flat += _flatten(value, f"{path}.") if isinstance(value, Mapping) else [(path, value)]
    return flat
