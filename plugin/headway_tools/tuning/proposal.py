"""The choice of a sweep, and the preset that it suggests, as a file with the evidence in its comments.

The knee of throughput over the mean time between tokens is chosen where it keeps the objectives; where it does not, or
there is none, the step with the highest throughput of those that keep them, and of several within ``_SAME_RATIO`` of it
the one with the fewest seats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from headway_policies.preset import toml_text
from headway_simulator.studies.knee import RULE, knee_of
from headway_tools.console import table
from headway_tools.tuning.step import Objectives, Step
from headway_tools.tuning.sweep import Swept

_SAME_RATIO = 0.97
_MAX_NAME_CHARS = 40
_SUFFIX = "-tuned"
_BUNDLED = "bundled"
_HEAD = ("seats", "window ms", "tokens/s", "inter-token ms, mean", "p50", "p95", "first token p95, ms", "sequences",
         "queued", "refused")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Choice:
    """The suggested step, the reason, and the knee and the window if found."""

    step: Step
    because: str
    knee: Step | None
    window_ms: float | None = None


def knee(steps: Sequence[Step]) -> Step | None:
    """The knee of the curve; None where it has none, or the throughput is the same everywhere."""
    timed = [step for step in steps if step.inter_token_mean_s is not None]
    if not timed or timed[0].tokens_per_s >= _SAME_RATIO * max(step.tokens_per_s for step in timed):
        return None
    place = knee_of([step.inter_token_mean_s or 0.0 for step in timed], [step.tokens_per_s for step in timed])
    return None if place is None else timed[place]


def choose(swept: Swept) -> Choice | None:
    """The proposal of a sweep; None where nothing was measured under load."""
    steps = [step for step in swept.by_seats() if step.tokens_per_s > 0]
    good, bend = _keeping(steps, swept), knee(steps)
    if bend is not None and bend in good:
        return _with_window(Choice(bend, f"the knee, {RULE}", bend), swept)
    if not good:
        return None
    best = max(step.tokens_per_s for step in good)
    step = next(step for step in good if step.tokens_per_s >= _SAME_RATIO * best)
    why = "the curve has no knee" if bend is None else f"the knee, {bend.seats} seats, misses an objective"
    return _with_window(Choice(step, f"the most tokens/s within the objectives; {why}", bend), swept)


def preset_text(name: str, source: str, settings: Mapping[str, object], swept: Swept, chosen: Choice, url: str) -> str:
    """The preset as TOML: it extends the one in force, and says what was measured."""
    seats, step = chosen.step.seats, chosen.step
    own = {"batching.seats": seats, **_limit(settings, seats), **_batching(settings, chosen)}
    if source in (_BUNDLED,) or source.endswith(".toml"):
        parent = [f"extends = {toml_text(name if source == _BUNDLED else source)}"]
        body = _tables(own)
    else:
        whole = {key: value for key, value in settings.items() if key != "limit.max_seats"}
        parent, body = [], _tables({**whole, **own})
    description = f"{name} with a limit fixed at the seats that were measured to be worth it: {step.seats}."
    lines = [
        f"# Suggested by `headway tune` on {datetime.now(UTC):%Y-%m-%d}, from {url} under the preset {name}.",
        f"# {seats} seats: {chosen.because}.",
        *(f"# The sweep tried {stop}." for stop in swept.stops),
        "#",
        *(f"# {line}" for line in evidence(swept)),
        "",
        f"name = {toml_text(name[: _MAX_NAME_CHARS - len(_SUFFIX)] + _SUFFIX)}",
        *parent,
        f"description = {toml_text(description)}",
        *top_level(settings, parent),
        *body,
    ]
    return "\n".join(lines) + "\n"


def evidence(swept: Swept) -> list[str]:
    """The measurements, a line for each step."""
    rows = [_row(step) for step in [*swept.by_seats(), *swept.windows]]
    return table(_HEAD, rows, indent="").splitlines()


def _row(step: Step) -> list[object]:
    times = [ms(value) for value in (step.inter_token_mean_s, step.inter_token_p50_s, step.inter_token_p95_s)]
    first = ", ".join(f"{name} {ms(value)}" for name, value in step.ttft_p95_s.items()) or "-"
    running = "-" if step.mean_batch is None else f"{step.mean_batch:.1f}"
    window = "-" if step.window_ms is None else f"{step.window_ms:g}"
    return [step.seats, window, f"{step.tokens_per_s:.1f}", *times, first, running, step.queued, step.refused]


def ms(value_s: float | None) -> str:
    """Milliseconds for people."""
    return "-" if value_s is None else f"{value_s * 1000:.1f}"


def top_level(settings: Mapping[str, object], parent: Sequence[str]) -> list[str]:
    """The keys outside all tables, which a preset without a parent needs."""
    if parent:
        return []
    return [f"{key} = {toml_text(value)}" for key, value in settings.items() if "." not in key]  # type: ignore[arg-type]  # settings


def _keeping(steps: Sequence[Step], swept: Swept) -> list[Step]:
    """The steps that keep all objectives, else the steps that miss none by more than the seats in force.

    None of them refuses a larger share of the requests than the seats in force.
    """
    first = swept.baseline
    steps = [step for step in steps if first is None or not step.refuses_more(first)]
    if good := [step for step in steps if not step.missed(swept.objectives)]:
        return good
    before = {} if first is None else first.missed(swept.objectives)
    missed = [(step, step.missed(swept.objectives)) for step in steps]
    return [step for step, ratios in missed if all(ratio <= before.get(name, 0.0) for name, ratio in ratios.items())]


def _with_window(chosen: Choice, swept: Swept) -> Choice:
    """The window with the most tokens/s that keeps the objectives; of several alike the shortest."""
    good = _keeping([window for window in swept.windows if window.seats == chosen.step.seats], swept)
    if not good:
        return chosen
    best = max(step.tokens_per_s for step in good)
    alike = [step for step in good if step.tokens_per_s >= _SAME_RATIO * best]
    shortest = min(alike, key=lambda step: step.window_ms or 0.0)
    return Choice(chosen.step, chosen.because, chosen.knee, shortest.window_ms)


def _limit(settings: Mapping[str, object], seats: int) -> dict[str, object]:
    """A fixed limit; the bound by KV space of the preset stays, and must leave room for it."""
    found: dict[str, object] = {}
    if settings.get("limit.policy", "fixed") != "fixed":
        found["limit.policy"] = "fixed"
    least, most = settings.get("limit.min_seats", 1), settings.get("limit.max_seats")
    if isinstance(least, int) and least > seats:
        found["limit.min_seats"] = 1
    if isinstance(most, int):
        found["limit.max_seats"] = max(most, seats)
    return found


def _batching(settings: Mapping[str, object], chosen: Choice) -> dict[str, object]:
    found: dict[str, object] = {}
    if chosen.window_ms is not None:
        found["batching.window_ms"] = chosen.window_ms
    sizes = settings.get("batching.preferred_batch_sizes")
    if isinstance(sizes, list) and any(isinstance(size, int) and size > chosen.step.seats for size in sizes):
        found["batching.preferred_batch_sizes"] = [size for size in sizes if size <= chosen.step.seats]
    return found


def _tables(settings: Mapping[str, object]) -> list[str]:
    """The settings by their tables."""
    tables: dict[str, list[str]] = {}
    for key, value in settings.items():
        table, _, name = key.rpartition(".")
        if table:
            tables.setdefault(table, []).append(f"{name} = {toml_text(value)}")  # type: ignore[arg-type]  # a setting
    return [line for table, lines in tables.items() for line in ("", f"[{table}]", *lines)]


__all__ = ["Choice", "Objectives", "choose", "evidence", "knee", "preset_text"]
