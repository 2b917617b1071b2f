"""Tenants in words, in the table and as CSV."""

from __future__ import annotations

import csv

from tenant_reports import noisy, report, row

from headway_dashboard.analysis.tenants import words
from headway_dashboard.analysis.tenants.fairness import jain, tenant_uses


def test_who_is_held_back_is_named_with_who_has_more() -> None:
    """The one that was refused below its fair share; a quiet one that has all it asked for is not."""
    (sentence,) = [one.replace("\xa0", " ") for one in words.hurt_words(tenant_uses(noisy()))]
    assert sentence == (
        "held had 14 of 20 requests refused and waited 3 s on the mean, with 6 % of the tokens, entitled to 50 %. "
        "More than entitled to: loud (90 % of the tokens, entitled to 25 %)."
    )
    assert words.hurt_words(tenant_uses(noisy()), "held") != words.hurt_words(tenant_uses(noisy()), "quiet")


def test_a_tenant_without_a_name_is_called_so() -> None:
    """In sentences as in the table, where it is held back and where it has more."""
    uses = tenant_uses(report(row("", 900), row("b", 100, queue_s=20.0)))
    assert "More than entitled to: (no name) (90" in words.hurt_words(uses)[0]
    uses = tenant_uses(report(row("a", 900), row("", 100, queue_s=20.0)))
    assert words.hurt_words(uses)[0].startswith("(no name) waited 2")
    assert words.hurt_words(tenant_uses(report(row("", 1))), "")[0].startswith("(no name) was not refused")


def test_one_that_only_waits_is_held_back_too() -> None:
    """Where it has less than it is entitled to, beside one with more."""
    uses = tenant_uses(report(row("a", 900), row("b", 100, queue_s=20.0)))
    assert words.hurt_words(uses)[0].startswith("b waited 2")
    uses = tenant_uses(report(row("a", 500, queue_s=20.0), row("b", 500, queue_s=20.0)))
    assert words.hurt_words(uses)[0].startswith("No tenant was refused")


def test_tenants_that_have_nearly_the_same_hold_nobody_back() -> None:
    """In an overload all wait, and shares are never quite equal."""
    uses = tenant_uses(report(row("a", 495, queue_s=20.0), row("b", 505, queue_s=20.0)))
    assert words.hurt(uses) == []


def test_one_that_is_held_back_is_named_also_where_no_other_has_much_more() -> None:
    """The tile counts it."""
    uses = tenant_uses(report(row("a", 940, 200, 100), *(row(name, 1020, 10) for name in "bcd")))
    assert [use.name for use in words.hurt(uses)] == ["a"]
    (sentence,) = words.hurt_words(uses)
    assert sentence.startswith("a had 100 of ")
    assert "More than entitled to" not in sentence


def test_one_that_is_refused_with_more_than_its_share_is_held_back_by_nobody() -> None:
    """A flood is refused: that is no harm of others."""
    uses = tenant_uses(report(row("loud", 900, 90, 60), row("quiet", 100)))
    assert words.hurt(uses) == []
    assert words.hurt_words(uses, "loud")[0].startswith("loud was not refused below a fair share")


def test_the_table_has_a_cell_for_each_heading() -> None:
    """Numbers are sorted by their values, and what means nothing is a dash."""
    found = noisy()
    for use in tenant_uses(found):
        assert len(words.cells(use)) == len(words.HEADINGS) == len(words.total_cells(found))
    server = words.cells(tenant_uses(found)[-1])
    assert [cell.text for cell in server[-3:]] == ["—"] * 3
    assert [cell.value for cell in server[-3:]] == [None] * 3


def test_tiles_count_those_that_are_held_back() -> None:
    """Jain's index has its definition in its help."""
    uses = tenant_uses(noisy())
    tiles = words.tiles(uses, jain(uses))
    assert (tiles["Tenants"][0], tiles["Held back"][0]) == ("3", "1 of 3")
    assert "(Σx)²" in tiles["Jain's index"][1]
    assert words.tiles([], None)["Jain's index"][0] == "—"
    assert words.tiles_of_chosen(uses[0])["Refused"][0] == "60"


def test_the_file_has_every_tenant_and_no_formula() -> None:
    """In base units."""
    uses = tenant_uses(report(row("=1+1", 30), *(row(f"t{number}", 1) for number in range(words.MOST_ROWS))))
    lines = list(csv.DictReader(words.usage_csv(uses).splitlines()))
    assert len(lines) == words.MOST_ROWS + 1
    assert (lines[0]["tenant"], lines[0]["tokens"], lines[0]["of_fair_share"]) == ("'=1+1", "30", "1")


def test_the_parts_of_one_tenant_begin_with_the_largest() -> None:
    """By class, key, model and end."""
    names = {"class": "normal", "key": "", "model": "m", "outcome": "completed", "reason": ""}
    refused = names | {"outcome": "rejected_full", "reason": "queue_full"}
    found = words.rows_of_chosen(report(row("", 1, 5, group=refused), row("", 70, 5, group=names)))
    assert [(one["Ended"], one["Key"], one["Tokens"]) for one in found] == [
        ("completed", "—", "70"), ("queue full", "—", "1"),
    ]  # fmt: skip
