"""The figures of the overload as text."""

from __future__ import annotations

from collections.abc import Sequence

from headway_tools.demo.overload.figures import ClassInOverload, OverloadFigures
from headway_tools.demo.overload.shares import ClassShare


def overload_lines(overload: OverloadFigures) -> list[str]:
    """The report on the policies in the overload, line by line."""
    ratio = f"{overload.offered_per_s / overload.capacity_per_s:.1f} times" if overload.capacity_per_s else "more than"
    advice = "no refusal had a Retry-After"
    if overload.retry_after_s is not None:
        least, most = overload.retry_after_s
        advice = f"Retry-After {least} s" if least == most else f"Retry-After {least} to {most} s"
    before, during = overload.before, overload.during
    return [
        f"  overload    {overload.sent} requests in {overload.length_s:.0f} s: {overload.offered_per_s:.1f} a second, "
        f"{ratio} the {overload.capacity_per_s:.1f} of the full engine; {overload.unanswered} without an answer",
        *_share_lines(overload.shares, overload.without),
        f"  outcomes    {'; '.join(_in_overload(figures) for figures in overload.classes)}",
        f"  {overload.classes[0].class_name:<10}  p95 before -> in the overload: "
        f"wait {whole_ms(before.wait_p95_s)} -> {whole_ms(during.wait_p95_s)} ms, "
        f"first token {whole_ms(before.first_token_p95_s)} -> {whole_ms(during.first_token_p95_s)} ms",
        f"  policies    {advice}; fallback rungs entered: {', '.join(overload.rungs) or 'none'}",
    ]


def _share_lines(shares: Sequence[ClassShare], without: Sequence[ClassShare]) -> list[str]:
    """The part of each class that was completed: in all, during the overload, and in time; the same without Headway."""
    within = ", ".join("any time" if share.objective_s is None else f"{share.objective_s:.2g} s" for share in shares)
    lines = [
        f"  served      {_served(shares)}",
        f"  meanwhile   {_meanwhile(shares)} before the overload was over",
        f"  in time     {_in_time(shares)} (a first token within {within})",
    ]
    if not without:
        return [*lines, "  without Headway: not known, the engine has shown too few steps"]
    return [
        *lines,
        "  without Headway, the same arrivals in vLLM's own queue, simulated with the step time of this engine:",
        f"    served    {_served(without)}",
        f"    meanwhile {_meanwhile(without)}",
        f"    in time   {_in_time(without)}",
    ]


def _served(shares: Sequence[ClassShare]) -> str:
    return ", ".join(f"{share.class_name} {share.served} of {share.sent}" for share in shares)


def _meanwhile(shares: Sequence[ClassShare]) -> str:
    return ", ".join(f"{share.class_name} {share.meanwhile} of {share.sent}" for share in shares)


def _in_time(shares: Sequence[ClassShare]) -> str:
    return ", ".join(f"{share.class_name} {share.in_time} of {share.sent}" for share in shares)


def _in_overload(figures: ClassInOverload) -> str:
    refused = sum(figures.refused.values())
    reasons = ", ".join(f"{reason} {count}" for reason, count in figures.refused.items())
    others = figures.arrived - figures.completed - refused
    parts = [
        f"{figures.class_name} {figures.completed} completed",
        f"{refused} refused" + (f" ({reasons})" if reasons else ""),
    ]
    return ", ".join([*parts, *([f"{others} otherwise"] if others else [])])


def whole_ms(seconds: float | None) -> object:
    """Whole milliseconds, or a dash where there is nothing to show."""
    return "-" if seconds is None else round(seconds * 1000)
