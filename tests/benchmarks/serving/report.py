"""The report of a run: its goals, a table with a line for each arm, and a chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from accepted import SERVING, Accepted
from goal import Goal
from report import as_markdown, judged, put_into, summary, table

from serving.default_goals import default_goals
from serving.details import details, percent
from serving.figures import BlockFigures, middle
from serving.machine import in_words
from serving.results import Results

CHART = Path("tests/benchmarks/results/goodput.svg")
_LOAD = 1.5
Spread = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Report:
    """The report as text, its part for the documentation, all details, the chart, and whether a goal is missed."""

    text: str
    table: str
    details: str
    chart: str
    missed: bool


def report(results: Results, listed: Accepted = SERVING) -> Report:
    """All that the results allow to say; ``listed`` are the misses that are accepted."""
    found = list(_goals(results))
    there = {(goal.name, goal.figure) for goal in found}
    accepted = {key: reason for key, reason in listed.items() if key in there}
    lines = [judged(goal, accepted) for goal in found]
    loads = _loads(results)
    shown = _LOAD if _LOAD in loads or not loads else loads[-1]
    arms = f"{_table(results, loads)}\n\n{below(results)}"
    goals = [as_markdown(lines), *summary(lines, accepted)]
    everything = "\n\n".join([*details(results), below(results), *goals]) + "\n"
    missed = any(line.fails for line in lines)
    return Report("\n\n".join([arms, *goals]) + "\n", arms, everything, _chart(results, shown), missed)


def write_into(root: Path, page: Path, found: Report, chart: Path = CHART, marks: str = "figures") -> None:
    """Put the table between these ``marks`` of the page, and the chart beside the results in the folder ``root``."""
    path = root / chart
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(found.chart, encoding="utf-8")
    page.write_text(put_into(page.read_text(encoding="utf-8"), found.table, marks), encoding="utf-8")


def _loads(results: Results) -> list[float]:
    return sorted({key.load for key in results.blocks if key.workload == "W1"})


def _goals(results: Results) -> Iterator[Goal]:
    levels = results.constants.levels if results.constants is not None else ()
    if len(levels) > 1:
        first, last = levels[0], levels[-1]
        figure = f"{last.clients} at once : {first.clients}"
        more, times = last.tokens_per_s / first.tokens_per_s, last.inter_token_s / first.inter_token_s
        yield Goal("N12", f"{figure}, tokens/s", 14.0, more)
        yield Goal("N12", f"{figure}, time per token", 4.0, times, most=True)
    yield from default_goals(results)
    for load in _loads(results):
        if load > 1:
            yield from _at(results, load)
    yield from _mixes(results)
    yield from _layer(results)


def _at(results: Results, load: float) -> Iterator[Goal]:
    own = _share(results, load, "objective")
    if own is None:
        return
    figure = f"goodput, objectives stated, at load {load:g} : the fluid ceiling"
    yield Goal("G1", figure, 0.92, own[0], note=_range(own))
    best, double = (
        max((one[0] for name in names if (one := _share(results, load, name)) is not None), default=None)
        for names in (["cap", *(name for name in results.named("W1") if name.startswith("cap-x"))], ["cap-double"])
    )
    if best:
        yield Goal("G1", f"the same : vLLM's cap at its best, at load {load:g}", 1.0, own[0] / best)
    if double is not None:
        figure = f"the same : a cap that is the best at double the speed, at load {load:g}"
        yield Goal("G1", figure, 3.0, own[0] / max(double, 1e-3))
    top = middle(one.attained("realtime") for one in results.of("W1", load, "objective"))
    if top is not None:
        figure = f"realtime requests within both objectives, at load {load:g}"
        yield Goal("G2", figure, 0.96, top[0], note=_range(top))


def _lasting(results: Results, load: float) -> Iterator[Goal]:
    """Five minutes of overload from the first request on, under the default preset."""
    soon = middle(one.good_ttft_per_s / one.ceiling_per_s for one in results.of("lasting", load, "default"))
    if soon is not None:
        figure = f"five minutes at {load:g} under balanced, first token within twice the objective : the fluid ceiling"
        yield Goal("G14", figure, 0.85, soon[0], note=_range(soon))


def _first_seconds(results: Results, load: float) -> Iterator[Goal]:
    """An engine that has just been started, from ten seconds after its first request on, against one that runs."""
    steady = _share(results, load, "objective", "first-seconds")
    for arm, words in (("unlearnt", "started"), ("restarted", "restarted")):
        own = _share(results, load, arm, "first-seconds")
        if steady is not None and own is not None:
            figure = f"goodput from 10 s after the first request of a {words} engine at {load:g} : of one that runs"
            yield Goal("G15", figure, 0.95, own[0] / steady[0], note=_range(own))


def _mixes(results: Results) -> Iterator[Goal]:
    """The goals of the long form's other parts."""
    for workload, load in results.parts():
        own = results.of(workload, load, "objective")
        if workload == "W1-60" and (top := middle(one.attained("realtime") for one in own)) is not None:
            figure = f"realtime offers 0.6 of the ceiling, within both objectives, at load {load:g}"
            yield Goal("G2", figure, 0.96, top[0], note=_range(top))
        if workload == "W3":
            yield from _limits(results, load)
        if workload == "lasting":
            yield from _lasting(results, load)
        if workload == "first-seconds":
            yield from _first_seconds(results, load)
        if workload == "W6" and (fair := middle(one.fairness for one in own)) is not None:
            figure = "Jain's index over served : max-min share, real engine"
            yield Goal("G10", figure, 0.99, fair[0], note=_range(fair))
            tokens = [
                middle(one.tokens_per_s for one in results.of(workload, load, arm)) for arm in ("objective", "unfair")
            ]
            if tokens[0] is not None and tokens[1] is not None:
                figure = "tokens/s, fair : first come first served, real engine"
                yield Goal("G10", figure, 0.99, tokens[0][0] / tokens[1][0])


def _limits(results: Results, load: float) -> Iterator[Goal]:
    """The adaptive limits against the fixed ones under a changing mix, by goodput."""
    shares = {name: _share(results, load, name, "W3") for name in results.named("W3")}
    known = {name: one[0] for name, one in shares.items() if one is not None}
    fixed = {name: one for name, one in known.items() if name.startswith("fixed-")}
    if not fixed:
        return
    best = max(fixed, key=lambda name: fixed[name])
    for name, goal, target in (("objective", "G3", 1.25), ("sla", "N6", 1.22)):
        if name in known:
            ratio = known[name] / max(fixed[best], 1e-3)
            limit = "fitted limit" if name == "objective" else "Algorithm 2"
            figure = f"changing mix at load {load:g}, {limit} : best of 8/32/64, real engine"
            yield Goal(goal, figure, target, ratio, note=f"{best.removeprefix('fixed-')} seats")


def _share(results: Results, load: float, arm: str, workload: str = "W1") -> Spread | None:
    return middle(one.of_ceiling for one in results.of(workload, load, arm))


def _layer(results: Results) -> Iterator[Goal]:
    """What the layer costs where nothing waits, by the number of clients."""
    for clients in sorted({int(one["clients"]) for one in results.layer}):
        own = [one for one in results.layer if one["clients"] == clients]
        pace, more_s = middle(one["pace_ratio"] for one in own), middle(one["ttft_more_s"] for one in own)
        if pace is not None and more_s is not None:
            figure = f"pace of the tokens through Headway : bare vLLM, {clients} at once"
            yield Goal("G7", figure, 0.99, pace[0], note=_range(pace))
            yield Goal("G7", f"first token later, {clients} at once", 0.3, 1000 * more_s[0], most=True, unit="ms")


def _table(results: Results, loads: Sequence[float]) -> str:
    head = [
        "load",
        "",
        "goodput of what is possible",
        "tokens/s",
        "realtime within objectives",
        "others",
        "realtime served",
        "others",
        "realtime first token, p99",
    ]
    played = ((load, name, words) for load in loads for name, words in results.named("W1").items())
    rows = [
        [f"{load:g}", words, *_cells(blocks)]
        for load, name, words in played
        if (blocks := results.of("W1", load, name))
    ]
    return table(head, rows)


def _cells(blocks: Sequence[BlockFigures]) -> list[str]:
    """One arm at one load."""
    tokens = middle(one.tokens_per_s for one in blocks)
    late_s = middle(one.classes["realtime"].ttft_s[2] for one in blocks if "realtime" in one.classes)
    return [
        percent(middle(one.of_ceiling for one in blocks)),
        "-" if tokens is None else f"{tokens[0]:.0f}",
        *(percent(middle(one.attained(name) for one in blocks)) for name in ("realtime", "normal")),
        *(percent(middle(one.served(name) for one in blocks)) for name in ("realtime", "normal")),
        "-" if late_s is None else f"{late_s[0]:.2f} s",
    ]


def below(results: Results) -> str:
    """What the table was measured on."""
    machine, constants = results.machine, results.constants
    assert constants is not None
    blocks = list(results.blocks.values())
    rounds = len({key.round for key in results.blocks})
    disturbed = sum(one.disturbed > 0 for one in blocks)
    ceiling = next((one.ceiling_per_s for key, one in results.blocks.items() if key.workload == "W1"), None)
    possible = "" if ceiling is None else f"{ceiling:.1f} requests/s of W1 are possible; "
    objectives = (
        f"a first token within {constants.slo.ttft_s:.2f} s, {1000 * constants.slo.inter_token_s:.0f} ms a token"
    )
    paces = [one.pace for one in blocks]
    if paces and (min(paces), max(paces)) != (1.0, 1.0):
        objectives += f", times the pace of the engine around each block ({min(paces):.2f} to {max(paces):.2f})"
    return (
        f"({in_words(machine)}: {possible}{objectives}. "
        f"Median of {rounds} rounds, least and largest; {disturbed} of {len(blocks)} blocks disturbed by other "
        "programs.)"
    )


def _range(spread: Spread) -> str:
    return f"{spread[1]:.3g} to {spread[2]:.3g}"


# ---------------------------------------------------------------------- the chart

_WIDTH, _BAR, _GAP, _LEFT, _TOP = 760, 20, 14, 330, 34
_OURS, _THEIRS, _INK = "#2563eb", "#9ca3af", "#374151"


def _chart(results: Results, load: float) -> str:
    """Bars of goodput as an SVG picture; a thin line spans the least and the largest."""
    shown = [(words, share) for name, words in results.named("W1").items() if (share := _share(results, load, name))]
    height, span = _TOP + len(shown) * (_BAR + _GAP) + 30, _WIDTH - _LEFT - 70
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="system-ui, sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="20" fill="{_INK}" font-weight="600">Requests served within both objectives at {load:g} times '
        "the load that is possible</text>",
    ]
    for place, (words, (middle_share, least, most)) in enumerate(shown):
        y = _TOP + place * (_BAR + _GAP)
        colour = _OURS if words.startswith("Headway") else _THEIRS
        lines += [
            f'<text x="{_LEFT - 8}" y="{y + 15}" text-anchor="end" fill="{_INK}">{escape(words)}</text>',
            f'<rect x="{_LEFT}" y="{y}" width="{max(1.0, span * min(middle_share, 1.1)):.1f}" height="{_BAR}" '
            f'fill="{colour}"/>',
            f'<line x1="{_LEFT + span * least:.1f}" x2="{_LEFT + span * most:.1f}" y1="{y + 10}" y2="{y + 10}" '
            f'stroke="{_INK}"/>',
            f'<text x="{_LEFT + span * most + 8:.1f}" y="{y + 15}" fill="{_INK}">{middle_share:.0%}</text>',
        ]
    lines.append(
        f'<text x="{_LEFT}" y="{height - 8}" fill="{_INK}">share of the fluid ceiling: the most that any policy could '
        "serve</text>"
    )
    return "\n".join([*lines, "</svg>"]) + "\n"
