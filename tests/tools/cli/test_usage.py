"""``headway usage``: the figures of an accounting as a table, as JSON and as CSV."""

from __future__ import annotations

import pytest
from admin_stand_in import Stub

from headway.api.schema import BudgetRow, UsageReport, UsageRow
from headway_tools.cli import main, usage


def row(tenant: str, cost: float | None = None, start: str | None = None) -> UsageRow:
    """The figures of one tenant."""
    return UsageRow(
        start=start, group={"tenant": tenant}, requests=7, refused=1, prompt_tokens=1000, cached_tokens=400,
        output_tokens=50, seat_s=65.2, kv_token_s=12345.6, queue_s=0.25, cost=cost,
    )  # fmt: skip


def found(**given: object) -> UsageReport:
    """An answer of a server."""
    usual: dict[str, object] = {
        "since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z", "kept_since": "2025-12-01T00:00:00Z",
        "by": ["tenant"], "rows": [row("acme"), row("")], "total": row("all"), "waiting": 0, "lost": 0,
    }  # fmt: skip
    return UsageReport.model_validate({**usual, **given})


def test_the_figures_are_a_table_with_a_line_for_all() -> None:
    """A tenant without a name is a dash."""
    lines = usage.text(found()).splitlines()
    head = "tenant  requests  refused  prompt  cached  output  seats      KV tokens  queue"
    assert lines[2].split() == head.split()
    assert [line.split()[:4] for line in lines[3:6]] == [
        ["acme", "7", "1", "1000"],
        ["-", "7", "1", "1000"],
        ["all", "7", "1", "1000"],
    ]
    assert "1 min 5 s" in lines[3]
    assert "cost" not in lines[2]


def test_costs_are_shown_where_there_are_prices() -> None:
    """In their currency; a dash where one is not known."""
    text = usage.text(found(currency="EUR", rows=[row("acme", 1.25), row("b")], total=row("", None)))
    assert "cost EUR" in text
    assert [line.split()[-1] for line in text.splitlines()[3:6]] == ["1.2500", "-", "-"]


def test_budgets_stand_below_the_figures() -> None:
    """With what is taken of each bound, by what has ended and what runs, and with its end, an organisation's too."""
    budget = BudgetRow(
        owner="organisation acme", bound="tokens_per_day", limit=2000.0, used=900.0, held=100.0,
        resets="2026-01-03T00:00:00Z",
    )  # fmt: skip
    of_all = found(budgets=[budget], organisations={"acme": "acme"})
    cells = ["organisation", "acme", "tokens_per_day", "900", "100", "2,000", "50%", "2026-01-03T00:00:00Z"]
    assert usage.text(of_all).splitlines()[-1].split() == [*cells, "44", "it", "lasts"]
    assert usage.text(of_all, "acme").splitlines()[-1].split() == [*cells, "-", "-"]
    assert "tokens_per_day" in usage.text(found(rows=[], budgets=[budget]))


def test_what_is_missing_is_said() -> None:
    """What is kept no more, what waits, and what is lost."""
    text = usage.text(found(kept_since="2026-01-01T12:00:00Z", waiting=3, lost=2))
    assert "nothing is kept from before 2026-01-01T12:00:00Z" in text
    assert "2 requests could not be counted" in text
    assert "3 requests are not written yet" in text
    assert "no request has ended" in usage.text(found(rows=[]))


def test_the_options_are_the_parameters_of_the_route(operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """Only those that were given."""
    operator.answer_all = (200, "application/json", found(by=[], rows=[row("x")]).model_dump_json().encode())
    assert main(["usage", "--since", "7d", "--tenant", "acme", "--every", "day", "--json"]) == 0
    method, path, _, _ = operator.seen[-1]
    assert (method, path) == ("GET", "/headway/v1/usage?since=7d&every=day&tenant=acme")
    assert UsageReport.model_validate_json(capsys.readouterr().out).rows[0].requests == 7


def test_csv_is_printed_as_it_came(operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """From the server, which writes it."""
    operator.answer_all = (200, "text/csv; charset=utf-8", b"tenant,requests\nacme,7\n")
    assert main(["usage", "--csv", "--by", "tenant"]) == 0
    assert capsys.readouterr().out == "tenant,requests\nacme,7\n"
    assert operator.seen[-1][1] == "/headway/v1/usage?by=tenant&format=csv"


def test_a_server_that_does_not_count_is_a_failure(operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """With the sentence of the server."""
    body = b'{"title": "Not Implemented", "status": 501, "detail": "The accounting is off."}'
    operator.answer_all = (501, "application/problem+json", body)
    assert main(["usage"]) == 1
    assert "The accounting is off." in capsys.readouterr().err
