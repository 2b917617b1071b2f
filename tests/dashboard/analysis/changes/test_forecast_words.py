"""Forecasts as text."""

from __future__ import annotations

from predicted import forecast

from headway.api.schema import ForecastErrors, Interval, PresetForecast
from headway_dashboard.analysis.changes.forecast_words import (
    Figure,
    basis_words,
    card_line,
    class_rows,
    earlier_words,
    matrix,
)

URGENCY = ["realtime", "normal", "batch"]


def spaced(text: str) -> str:
    """With plain spaces."""
    return text.replace("\xa0", " ")


def test_a_card_has_the_most_urgent_class_that_has_requests() -> None:
    """Its first tokens with their spread, the tokens of all, and its refusals."""
    (one,) = forecast("latency").presets
    assert spaced(card_line(one, URGENCY)) == "normal: TTFT p95 800 ms (600 ms to 1.1 s), 240 tokens/s, 2 % refused"


def test_a_preset_without_requests_is_told_of_all() -> None:
    """A class that the order does not know is not taken for the most urgent."""
    (one,) = forecast("latency").presets
    assert card_line(one, []).startswith("all: TTFT p95")


def test_the_table_has_each_class_in_its_order_and_all() -> None:
    """A spread is given only where there is one."""
    rows = class_rows(forecast("latency").presets[0], URGENCY)
    assert [row["Class"] for row in rows] == ["realtime", "normal", "all"]
    assert rows[0]["TTFT p95"] == "—"
    assert spaced(rows[1]["Refused"]) == "2 %"


def test_presets_against_classes_with_the_best_of_each_column() -> None:
    """The most urgent class first; nothing is best where all are alike, and a class without requests has no figure."""
    made = forecast("latency", "balanced", "serial")
    presets = [_within(one, good) for one, good in zip(made.presets, (0.972, 0.5, 0.971), strict=True)]
    found = matrix(made.model_copy(update={"presets": presets}), URGENCY)
    assert [list(row) for row in found.values()] == [["realtime", "normal", "Tokens/s"]] * 3
    assert [row["normal"].best for row in found.values()] == [True, False, True]
    assert spaced(found["balanced"]["normal"].text) == "50 %, TTFT 800 ms"
    assert found["latency"]["realtime"] == Figure("—")
    assert found["latency"]["Tokens/s"] == Figure("240")


def _within(preset: PresetForecast, good: float) -> PresetForecast:
    """The same with so many requests of class normal within the objectives."""
    ratio = Interval(value=good, low=good, high=good)
    classes = {**preset.classes, "normal": preset.classes["normal"].model_copy(update={"good_ratio": ratio})}
    return preset.model_copy(update={"classes": classes})


def test_what_a_forecast_rests_on() -> None:
    """Its age, its traffic, the model's error, and how true earlier ones were."""
    text = spaced(basis_words(forecast("latency"), 180.0))
    assert text.startswith("Forecast made 3 min ago: 300 sequences of 10 min of recorded traffic, 3 replays")
    assert "off by 4 % of its recent step times" in text
    assert text.endswith("No earlier forecast has been compared with what came yet.")


def test_the_error_of_earlier_forecasts() -> None:
    """By figure, over the switches that were compared."""
    errors = ForecastErrors(comparisons=2, error_ratio={"ttft_p95_s": 0.12, "tokens_per_s": 0.03})
    assert spaced(earlier_words(errors)) == (
        "After the last 2 switches forecasts were off by (median): first token, p95 12 %, tokens/s 3 %."
    )
