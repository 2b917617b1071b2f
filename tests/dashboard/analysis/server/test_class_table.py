"""The class table of the Overview page."""

from __future__ import annotations

from readings import reading_of

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.server import newest_values
from headway_dashboard.analysis.units import MISSING


def test_the_class_table_has_the_quantiles_of_each_phase_and_the_batches_waited() -> None:
    """p50, p95 and p99 of the first token, of prefill and of decode; a single sign where nothing was measured."""
    answers: dict[Expression, dict[tuple[str, ...], list[float | None]]] = {
        panels.BATCHES_WAITED_BY_CLASS: {("normal",): [3.0]}
    }
    phases = {"TTFT": panels.TTFT_BY_CLASS, "Prefill": panels.PREFILL_BY_CLASS, "Decode": panels.DECODE_BY_CLASS}
    for quantiles in phases.values():
        answers |= {one: {("normal",): [share]} for share, one in quantiles.items()}
    normal, batch = newest_values.class_rows(reading_of(answers), ("normal", "batch"))
    for phase in phases:
        assert normal[f"{phase} p50, p95, p99"].replace("\u00a0", " ") == "500 ms, 950 ms, 990 ms"
        assert batch[f"{phase} p50, p95, p99"] == MISSING
    assert (normal["Batches waited p95"], batch["Batches waited p95"]) == ("3", MISSING)


def test_an_error_share_has_its_numbers() -> None:
    """100 % of five is not 100 % of five hundred."""
    answers: dict[Expression, dict[tuple[str, ...], list[float | None]]] = {
        panels.ERROR_SHARE_BY_CLASS: {("normal",): [1.0]},
        panels.ENDED_BY_CLASS: {("normal",): [5.0], ("batch",): [0.0]},
        panels.FAILED_BY_CLASS: {("normal",): [5.0]},
    }
    normal, batch = newest_values.class_rows(reading_of(answers), ("normal", "batch"))
    assert normal["Error share"].replace("\u00a0", " ") == "100 % (5 of 5)"
    assert batch["Error share"] == MISSING
