"""The figures of the overload as text."""

from __future__ import annotations

from headway.demo.overload.figures import ClassInOverload, OverloadFigures


def overload_lines(overload: OverloadFigures) -> list[str]:
    """What the policies did in the overload, in four lines."""
    ratio = f"{overload.offered_per_s / overload.capacity_per_s:.1f} times" if overload.capacity_per_s else "more than"
    advice = "no refusal had a Retry-After"
    if overload.retry_after_s is not None:
        least, most = overload.retry_after_s
        advice = f"Retry-After {least} s" if least == most else f"Retry-After {least} to {most} s"
    before, during = overload.before, overload.during
    return [
        f"  overload    {overload.sent} requests in {overload.length_s:.0f} s: {overload.offered_per_s:.1f} a second, "
        f"{ratio} the {overload.capacity_per_s:.1f} of the full engine; {overload.unanswered} without an answer",
        f"  outcomes    {'; '.join(_in_overload(one) for one in overload.classes)}",
        f"  {overload.classes[0].class_name:<10}  p95 before -> in the overload: "
        f"wait {whole_ms(before.wait_p95_s)} -> {whole_ms(during.wait_p95_s)} ms, "
        f"first token {whole_ms(before.first_token_p95_s)} -> {whole_ms(during.first_token_p95_s)} ms",
        f"  policies    {advice}; fallback rungs entered: {', '.join(overload.rungs) or 'none'}",
    ]


def _in_overload(one: ClassInOverload) -> str:
    refused = sum(one.refused.values())
    reasons = ", ".join(f"{reason} {count}" for reason, count in one.refused.items())
    others = one.arrived - one.completed - refused
    parts = [f"{one.class_name} {one.completed} completed", f"{refused} refused" + (f" ({reasons})" if reasons else "")]
    return ", ".join([*parts, *([f"{others} otherwise"] if others else [])])


def whole_ms(seconds: float | None) -> object:
    """Whole milliseconds, or a dash where there is nothing to show."""
    return "-" if seconds is None else round(seconds * 1000)
