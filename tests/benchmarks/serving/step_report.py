"""The report of ``--only step``: its goals, the tables, and the picture of the time between tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, median

from accepted import STEP, Accepted
from goal import Goal
from report import as_markdown, judged, summary, table

from serving.arms import SHARE
from serving.arrivals import CHAT, LONG
from serving.figures import BlockFigures, middle
from serving.form import LONG_PROMPTS
from serving.report import Report, below
from serving.results import BESIDE, Results
from serving.step_picture import picture
from serving.streams import LONG_TOKENS, STREAMS

CHART = Path("tests/benchmarks/results/step.svg")
OWN, SET, ALONE = "steps", "share", "plain"
_FIXED = ("budget-", "threshold-")
_FROM_LOAD = 1.0  # where more comes than can be served


def step_report(results: Results, listed: Accepted = STEP) -> Report:
    """All that the results allow to say; ``listed`` are the misses that are accepted."""
    lines = [judged(goal, listed) for goal in step_goals(results)]
    loads = dict.fromkeys(load for workload, load in results.parts() if workload == LONG_PROMPTS)
    tables = [_streams(results), *(_mix(results, load) for load in loads), below(results)]
    goals = [as_markdown(lines), *summary(lines, listed)]
    shown = "\n\n".join(tables)
    text = "\n\n".join([shown, *goals]) + "\n"
    named = {name: results.named(BESIDE).get(name, name) for name in (ALONE, OWN)}
    curves = {words: one.course for name, words in named.items() for one in results.beside if one.arm == name}
    return Report(text, shown, text, picture(curves), any(line.fails for line in lines))


def step_goals(results: Results) -> Iterator[Goal]:
    """Streams beside a long prompt, the mix against vLLM's defaults, and what it costs plain chat."""
    for one in results.beside:
        if one.arm == OWN and one.alone_s[2] is not None and one.beside_s[2] is not None:
            figure = f"time between tokens p99 of {STREAMS} streams beside a prompt of {LONG_TOKENS} tokens : alone"
            note = f"{1000 * one.beside_s[2]:.0f} : {1000 * one.alone_s[2]:.0f} ms"
            yield Goal("G21", figure, 2.0, one.beside_s[2] / one.alone_s[2], most=True, note=note)
            yield Goal("G21", "streams and prompts that were lost", 0, one.lost + one.unanswered, most=True)
        if one.arm == SET:
            figure = f"share of the steps' time that prompts had, off a set share of {SHARE:g}"
            off = 100 * abs(one.share - SHARE)
            yield Goal("G21", figure, 3.0, off, most=True, unit="points", note=f"{one.share:.3f}")
    for workload, load in results.parts():
        if workload == LONG_PROMPTS:
            yield from _against(results, load)
    chat = {name: mean(per_s for arm, per_s in results.chat if arm == name) for name, _ in results.chat}
    if {OWN, ALONE} <= chat.keys():
        note = f"{chat[OWN]:.0f} : {chat[ALONE]:.0f}"
        yield Goal(
            "G22", "tokens/s of plain chat : vLLM as it comes", 0.99, chat[OWN] / max(chat[ALONE], 1e-9), note=note
        )


def _against(results: Results, load: float) -> Iterator[Goal]:
    """Chat among long prompts: against vLLM's defaults, and against the best of its fixed steps."""
    late = {name: _late_s(results.of(LONG_PROMPTS, load, name)) for name in (OWN, ALONE)}
    own_s, alone_s = late[OWN], late[ALONE]
    if own_s is not None and alone_s is not None:
        figure = f"first token p99 of chat at load {load:g}, vLLM as it comes : with the step policy"
        yield Goal("G22", figure, 2.0, alone_s / own_s, note=f"{alone_s:.2f} : {own_s:.2f} s")
    good = {name: _good(results.of(LONG_PROMPTS, load, name)) for name in results.named(LONG_PROMPTS)}
    known = {name: per_s for name, per_s in good.items() if per_s is not None}
    if load < _FROM_LOAD or not {OWN, ALONE} <= known.keys():
        return
    figure = f"chat within both objectives at load {load:g} : vLLM as it comes"
    note = f"{known[OWN]:.2f} : {known[ALONE]:.2f} a second"
    yield Goal("G22", figure, 1.15, known[OWN] / max(known[ALONE], 1e-3), note=note)
    if fixed := {name: per_s for name, per_s in known.items() if name.startswith(_FIXED)}:
        best = max(fixed, key=fixed.__getitem__)
        note = f"{known[OWN]:.2f} : {fixed[best]:.2f}, {best}"
        yield Goal("G22", f"the same : vLLM's best fixed steps, at load {load:g}", 1.0,
                   known[OWN] / max(fixed[best], 1e-3), note=note)  # fmt: skip


def _streams(results: Results) -> str:
    """Every arm with streams."""
    head = [
        "",
        "time between tokens alone, p50 / p99",
        "beside a long prompt",
        "p99 : alone",
        "first token of it",
        "planned steps, pressed",
    ]
    rows = []
    for one in results.beside:
        (alone, _, alone_late), (beside, _, late) = one.alone_s, one.beside_s
        ratio = f"{late / alone_late:.1f}" if late and alone_late else "-"
        first = f"{median(one.first_s):.1f} s" if one.first_s else "-"
        words = results.named(BESIDE).get(one.arm, one.arm)
        planned = f"{one.planned}, {one.pressed}" if one.planned else "-"
        rows.append([words, _ms(alone, alone_late), _ms(beside, late), ratio, first, planned])
    title = f"{STREAMS} streams, and prompts of {LONG_TOKENS} tokens one after another:"
    return f"{title}\n\n{table(head, rows)}"


def _mix(results: Results, load: float) -> str:
    """Every arm at one load of chat and long prompts."""
    head = [
        "", "tokens/s", "chat within both objectives", "first token of chat, p50 / p95 / p99",
        "of long prompts", "a token of chat, p50 / p95 / p99", "refused",
    ]  # fmt: skip
    rows = []
    for name, words in results.named(LONG_PROMPTS).items():
        if not (blocks := results.of(LONG_PROMPTS, load, name)):
            continue
        tokens, refused = (middle(getattr(one, figure) for one in blocks) for figure in ("tokens_per_s", "refused"))
        good = middle(one.attained(CHAT) for one in blocks)
        rows.append([
            words,
            "-" if tokens is None else f"{tokens[0]:.0f}",
            "-" if good is None else f"{good[0]:.0%}",
            _times(blocks, CHAT, "ttft_s", 1, "s"),
            _times(blocks, LONG, "ttft_s", 1, "s"),
            _times(blocks, CHAT, "inter_token_s", 1000, "ms"),
            "-" if refused is None else f"{refused[0]:.0%}",
        ])  # fmt: skip
    return f"Chat and long prompts at {load:g} times the load that is possible:\n\n{table(head, rows)}"


def _times(blocks: Sequence[BlockFigures], name: str, figure: str, factor: float, unit: str) -> str:
    own = [getattr(one.classes[name], figure) for one in blocks if name in one.classes]
    found = [middle(values) for values in zip(*own, strict=True)]
    if not found or found[0] is None:
        return "-"
    return " / ".join("-" if one is None else f"{factor * one[0]:.3g}" for one in found) + f" {unit}"


def _late_s(blocks: Sequence[BlockFigures]) -> float | None:
    found = middle(one.classes[CHAT].ttft_s[2] for one in blocks if CHAT in one.classes)
    return None if found is None else found[0]


def _good(blocks: Sequence[BlockFigures]) -> float | None:
    """Chat requests within both objectives, a second."""
    found = middle(
        one.good_per_s * one.classes[CHAT].good / max(1, one.classes["all"].good)
        for one in blocks
        if CHAT in one.classes
    )
    return None if found is None else found[0]


def _ms(usual_s: float | None, late_s: float | None) -> str:
    return " / ".join("-" if one is None else f"{1000 * one:.0f}" for one in (usual_s, late_s)) + " ms"
