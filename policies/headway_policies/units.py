"""Numbers as text: durations, shares and counts, as they stand in sentences and tables."""

from __future__ import annotations


def compact(value: float) -> str:
    """Three significant digits at most, whole numbers without a point, thousands apart."""
    if abs(value) >= 100 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}".rstrip("0").rstrip(".")


def duration(value_s: float) -> str:
    """A time span: "85 ms", "2.4 s", "3 min 5 s", "2 h 10 min"."""
    if value_s < 0.9995:
        return f"{value_s * 1000:.0f} ms"
    if value_s < 59.95:
        return f"{compact(round(value_s, 1))} s"
    whole_s = round(value_s)
    if whole_s < 3600:
        minutes, seconds = divmod(whole_s, 60)
        return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
    hours, rest_s = divmod(whole_s, 3600)
    return f"{hours} h {rest_s // 60} min"


def above(value_s: float, bound_s: float) -> str:
    """A time span that is longer than a bound: never in the same words as the bound."""
    words, bound = duration(value_s), duration(bound_s)
    return f"just over {bound}" if words == bound else words


def percent(ratio: float) -> str:
    """A share: "12 %", "0.4 %"."""
    return f"{compact(ratio * 100)} %"
