"""The figures of ``headway bench``: a table, JSON, and a CSV file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import isfinite

from headway_simulator.engine_model.capacity import Slo
from headway_simulator.report.report import spread_ms
from headway_simulator.report.summary import ALL
from headway_tools.console import Exit, csv_text, milliseconds, table, warn, write_file
from headway_tools.load.measured import ClassMeasured, Measured
from headway_tools.load.run import Compared
from headway_tools.load.served import FAILED, REFUSED

_LATE_S = 0.1


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run: what was offered to which servers, and its figures; ``capacity_per_s`` is None where it is not known."""

    url: str
    other_url: str | None
    model: str
    words: str
    seed: int
    rate_per_s: float
    capacity_per_s: float | None
    slo: Slo
    own: Mapping[str, Slo]
    result: Measured | Compared

    @property
    def arms(self) -> dict[str, Measured]:
        """The figures by server."""
        if isinstance(self.result, Measured):
            return {self.url: self.result}
        assert self.other_url is not None
        return dict(zip((f"A {self.url}", f"B {self.other_url}"), self.result.arms, strict=True))


def show(chosen: argparse.Namespace, outcome: Outcome) -> int:
    """Print, write what is asked for, and return the exit code. Raises UsageError where a file cannot be written."""
    if chosen.csv:
        write_file(chosen.csv, as_csv(outcome))
    print(json.dumps(as_json(outcome), ensure_ascii=False) if chosen.json else text(outcome))
    late_s = max(arm.lag_s for arm in outcome.arms.values())
    if late_s > _LATE_S:
        warn(f"requests were sent up to {late_s:.1f} s late: this client, or its machine, is too slow for the rate")
    idle = [name for name, arm in outcome.arms.items() if not arm.all.completed]
    for name in idle:
        print(f"headway: error: {name}: no request was completed", file=sys.stderr)
    return Exit.FAILED if idle or any(arm.unanswered for arm in outcome.arms.values()) else Exit.OK


def text(outcome: Outcome) -> str:
    """The figures as text."""
    arms = outcome.arms
    names = list(dict.fromkeys(name for arm in arms.values() for name in arm.by_class()))
    rows: list[list[object]] = [[label, *map(of, arms.values())] for label, of in _WHOLE.items()]
    if all(arm.jain is None for arm in arms.values()):
        rows = [row for row in rows if row[0] != "fairness (Jain)"]
    for name in names if len(names) > 2 else names[:1]:
        parts = [arm.by_class().get(name, ClassMeasured()) for arm in arms.values()]
        spans_s = [arm.span_s for arm in arms.values()]
        rows.append(["every class" if name == ALL else f"class {name}", *[""] * len(parts)])
        for label, show_one in _CLASS.items():
            rows.append([f"  {label}", *map(show_one, parts, spans_s)])
        for label, counts in (
            ("refused", [part.refused for part in parts]),
            ("failed", [part.failed for part in parts]),
        ):
            rows += [
                [f"  {label}, {why}", *(count[why] for count in counts)]
                for why in sorted({why for count in counts for why in count})
            ]
    lines = [*_facts(outcome), "", table(["", *arms], rows, indent="")]
    if isinstance(outcome.result, Compared):
        lines += ["", _ratios(outcome.result)]
    return "\n".join([*lines, "", "triples: 50th / 95th / 99th percentile; goodput: completed within both objectives"])


def as_json(outcome: Outcome) -> dict[str, object]:
    """The whole outcome, for scripts."""
    found: dict[str, object] = {
        "model": outcome.model,
        "workload": outcome.words,
        "seed": outcome.seed,
        "rate_per_s": outcome.rate_per_s,
        "capacity_per_s": outcome.capacity_per_s,
        "slo": asdict(outcome.slo),
        "slo_by_class": {
            name: {objective: bound_s if isfinite(bound_s) else None for objective, bound_s in asdict(slo).items()}
            for name, slo in outcome.own.items()
        },
        "servers": [
            {
                "server": name,
                "span_s": arm.span_s,
                "unanswered": arm.unanswered,
                "serving_s": arm.serving_s,
                "tokens_per_s": arm.tokens_per_s,
                "jain": arm.jain,
                "send_lag_s": arm.lag_s,
                "classes": [_flat(which, part, arm) for which, part in arm.by_class().items()],
            }
            for name, arm in outcome.arms.items()
        ],
    }
    if isinstance(outcome.result, Compared):
        found["ratios"] = [asdict(ratio) for ratio in outcome.result.ratios()]
    return found


def as_csv(outcome: Outcome) -> str:
    """The figures as CSV, a row for each server and class, rounded to six significant digits."""
    rows = [
        {"server": name, **_flat(which, part, arm), "jain": arm.jain}
        for name, arm in outcome.arms.items()
        for which, part in arm.by_class().items()
    ]
    return csv_text([{key: _cell(value) for key, value in row.items()} for row in rows])


def _facts(outcome: Outcome) -> list[str]:
    capacity = outcome.capacity_per_s
    load = "" if capacity is None else f", {outcome.rate_per_s / capacity:.2f} times the measured {capacity:.2f}"
    named = set(outcome.own).issuperset(name for arm in outcome.arms.values() for name in arm.classes)
    judged = {**outcome.own, **({} if named else {"others" if outcome.own else "": outcome.slo})}
    return [
        f"{outcome.words}, seed {outcome.seed}; model {outcome.model}",
        f"open loop of {outcome.rate_per_s:.2f} requests/s{load}",
        f"objectives: {'; '.join(map(_bounds, judged, judged.values()))}",
    ]


def _bounds(name: str, slo: Slo) -> str:
    bounds = ((slo.ttft_s, "first token within {} ms"), (slo.inter_token_s, "{} ms between tokens"))
    words = ", ".join(text.format(milliseconds(bound_s)) for bound_s, text in bounds if isfinite(bound_s))
    return f"{name} {words}".strip()


def _ratios(compared: Compared) -> str:
    rows = [
        [ratio.name, f"{ratio.median:.2f}", f"{ratio.least:.2f} to {ratio.most:.2f}"] for ratio in compared.ratios()
    ]
    return table(["B / A", "median", f"extremes of {len(compared.pairs)} pairs"], rows, indent="")


_WHOLE: Mapping[str, Callable[[Measured], object]] = {
    "without an answer": lambda run: run.unanswered,
    "output, tokens/s": lambda run: f"{run.tokens_per_s:.1f}",
    "fairness (Jain)": lambda run: "-" if run.jain is None else f"{run.jain:.3f}",
}
_CLASS: Mapping[str, Callable[[ClassMeasured, float], object]] = {
    "offered": lambda measured, span_s: measured.offered,
    "completed": lambda measured, span_s: measured.completed,
    "within the objectives": lambda measured, span_s: f"{measured.good} ({measured.attained_ratio:.1%})",
    "goodput, requests/s": lambda measured, span_s: f"{measured.good / span_s:.2f}",
    "first token, ms": lambda measured, span_s: spread_ms(measured.ttft.spread()),
    "inter-token, ms": lambda measured, span_s: spread_ms(measured.inter_token.spread()),
    "Retry-After, s": lambda measured, span_s: _advice(measured),
}


def _flat(name: str, measured: ClassMeasured, arm: Measured) -> dict[str, object]:
    row: dict[str, object] = {
        "class": name,
        "offered": measured.offered,
        "completed": measured.completed,
        "refused": measured.endings[REFUSED],
        "failed": measured.endings[FAILED],
        "unanswered": measured.unanswered,
        "good": measured.good,
        "goodput_per_s": measured.good / arm.span_s,
        "good_tokens_per_s": measured.good_tokens / arm.serving_s,
        "attained_ratio": measured.attained_ratio,
        "tokens_per_s": measured.tokens / arm.serving_s,
    }
    for figure, spread in (("ttft", measured.ttft.spread()), ("inter_token", measured.inter_token.spread())):
        for part, value_s in asdict(spread).items():
            row[f"{figure}_{part.removesuffix('_s')}_ms"] = None if value_s is None else value_s * 1000
    row |= {
        "refused_by": dict(measured.refused),
        "failed_by": dict(measured.failed),
        "with_retry_after": measured.advised,
    }
    row["retry_after_s"] = None if measured.advice_s is None else list(measured.advice_s)
    return row


def _cell(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return "; ".join(f"{reason}={count}" for reason, count in value.items())
    return " to ".join(map(str, value)) if isinstance(value, list) else value


def _advice(measured: ClassMeasured) -> str:
    refused = measured.endings[REFUSED]
    if not refused:
        return "-"
    if measured.advice_s is None:
        return f"none of {refused}"
    least, most = measured.advice_s
    return f"{least} to {most} ({measured.advised} of {refused})"
