"""The pages about presets: the bundled ones, every setting, where each part acts, and the states of a request."""

from __future__ import annotations

import re

from headway_policies import PriorityClass, bundled_presets
from headway_policies.desk.books.transitions import NEXT, Event, Phase
from headway_policies.preset import LACKS, Ability, Place
from headway_policies.preset.parts import CONDITIONS, PARTS, Part, by_table
from headway_site.tables import ROOT, page, table

#: The annotated preset that shows every setting; a test parses it.
EVERY_SETTING = ROOT / "plugin" / "examples" / "every_setting.toml"
_OBJECTIVES = "An objective such as `8x 0.3..10` is a multiple of what one request alone takes, between two bounds."


def presets() -> str:
    """The bundled presets, and the terms of their classes."""
    found = bundled_presets().values()
    rows = [[f"`{preset.name}`", str(preset.batching.seats), preset.batching.strategy, preset.limit.policy,
             preset.description] for preset in found]  # fmt: skip
    classes = [
        [f"`{preset.name}`", f"`{name}`", *_terms(terms)] for preset in found for name, terms in preset.classes.items()
    ]
    head = ["preset", "class", "priority", "share", "first token", "between tokens", "queue time-out", "total time-out"]
    return page(
        "Presets",
        "The bundled presets. The seats are where a limit that follows the engine starts.",
        table(["preset", "seats", "batching", "limit", "for"], rows),
        "## Classes",
        _OBJECTIVES,
        table(head, classes),
    )


def _terms(terms: PriorityClass) -> list[str]:
    def seconds(value: float | None) -> str:
        return "-" if value is None else f"{value:g} s"

    between = terms.inter_token_slo_ms
    return [
        str(terms.priority),
        "-" if terms.share is None else f"{terms.share:g}",
        _objective(terms.ttft_slo_s, "s"),
        _objective(between, "ms"),
        seconds(terms.queue_timeout_s),
        seconds(terms.total_timeout_s),
    ]


def _objective(value: object, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:g} {unit}" if isinstance(value, (int, float)) else f"`{value}`"


def settings() -> str:
    """Every setting of a preset, and where each part acts."""
    return page(
        "Settings of a preset",
        "One preset with every setting; `plugin/examples/every_setting.toml` is this file.",
        f"```toml\n{EVERY_SETTING.read_text(encoding='utf-8').rstrip()}\n```",
        "## Where each part acts",
        "A dash: the part has no effect there; `headway status`, the log at the start and a switch say so.",
        table(["part", *(f"`{place}`" for place in Place)], (_row(part) for part in PARTS)),
        "\n".join(_reasons()),
    )


def _row(part: Part) -> list[str]:
    keys = re.sub(r"[a-z][a-z_]+(?=[,;]|$)", r"`\g<0>`", by_table(part.keys)).replace("[", "`[").replace("]", "]`")
    return [f"{part.name}: {keys}" if keys else part.name, *(_cell(part, place) for place in Place)]


def _cell(part: Part, place: Place) -> str:
    """Whether a part acts in a place: ``yes``, with the condition where there is one, or a dash."""
    if place is Place.BATCHER:
        return "-" if part.batcher is None else f"yes: {part.batcher}"
    if part.lacks(LACKS[place]) is not None:
        return "-"
    conditions = [CONDITIONS[place, need] for need in part.needs if (place, need) in CONDITIONS]
    return f"yes: {conditions[-1]}" if conditions else "yes"


def _reasons() -> list[str]:
    return [
        f"* `{place}`, {', '.join(names)}: {missing}."
        for place, lacking in LACKS.items()
        for missing in Ability
        if (names := [part.name for part in PARTS if part.keys and part.lacks(lacking) is missing])
    ]


def states() -> str:
    """The phases of a request, drawn from the table of transitions."""
    events: dict[tuple[Phase, Phase], list[Event]] = {}
    for (before, event), then in NEXT.items():
        events.setdefault((before, then), []).append(event)
    lines = ["stateDiagram-v2", f"    [*] --> {Phase.WAITING.name}: arrive"]
    lines += [f"    {before.name} --> {then.name}: {', '.join(names)}" for (before, then), names in events.items()]
    drawn = "\n".join([*lines, f"    {Phase.ENDED.name} --> [*]"])
    return page(
        "States of a request",
        "The phases of a request in the desk, and the events that move it. A request that the desk refuses on arrival "
        "gets its outcome at once, and no phase.",
        f"```mermaid\n{drawn}\n```",
    )
