"""Queries of the accounting, prices, and the tenants with a label."""

from __future__ import annotations

from itertools import pairwise

import pytest

from headway_policies.usage import (
    OTHER,
    Figures,
    Period,
    Priced,
    Prices,
    PricesError,
    QueryError,
    TopTenants,
    costed,
    read_query,
)

NOW_S = 1_800_000_000.5
DAY_S = 86_400

PRICES = """
currency = "EUR"
[[prices]]
class = "batch"
prompt = 1
output = 2
[[prices]]
model = "lora"
prompt = 10
cached = 1
output = 20
"""


def test_the_usual_query_is_each_tenant_of_the_last_day() -> None:
    """From the minutes, whole ones."""
    query = read_query({}, NOW_S)
    assert (query.by, query.period, query.every, query.tenant) == (("tenant",), Period.MINUTE, False, None)
    assert query.since_s <= NOW_S - DAY_S < query.since_s + 60
    assert query.until_s - 60 < NOW_S <= query.until_s


SPANS = {
    "2d": Period.MINUTE,
    "3d": Period.HOUR,
    "60d": Period.HOUR,
    "61d": Period.DAY,
    "2026-12-31T00:00:00Z": Period.HOUR,
}


@pytest.mark.parametrize("since", SPANS)
def test_a_range_is_summed_up_from_the_finest_periods_that_are_kept_so_long(since: str) -> None:
    """However short it is: it is how far back it begins that decides."""
    query = read_query({"since": since}, NOW_S)
    assert query.period is SPANS[since]
    assert query.since_s % query.period == query.until_s % query.period == 0


def test_a_period_that_is_asked_for_is_taken() -> None:
    """With a row for each."""
    query = read_query({"since": "1h", "every": "day", "by": "class, reason", "tenant": "a"}, NOW_S)
    assert (query.period, query.every, query.by, query.tenant) == (Period.DAY, True, ("class", "reason"), "a")


WRONG = [
    {"since": "1y"}, {"since": ""}, {"since": "yesterday"}, {"since": "2026-01-01"}, {"since": "2026-01-01T00:00:00"},
    {"since": "-1d"}, {"since": "²d"}, {"since": "9" * 9 + "w"}, {"since": "9" * 50 + "s"}, {"until": "2d"},
    {"by": "secret"}, {"by": "tenant,tenant"}, {"every": "week"}, {"tenant": "x" * 129}, {"until": "x"},
    {"since": "0001-01-01T00:00:00+14:00"},
]  # fmt: skip


@pytest.mark.parametrize("given", WRONG, ids=str)
def test_a_wrong_query_names_its_parameter(given: dict[str, str]) -> None:
    """And nothing of what it had."""
    with pytest.raises(QueryError) as caught:
        read_query(given, NOW_S)
    assert str(caught.value).partition(":")[0] in {*given, "since"}
    assert all(len(value) < 9 or value not in str(caught.value) for value in given.values())


def parts(*rows: tuple[str, str, str, int, int, int]) -> list[Priced]:
    """Parts of one row."""
    return [
        Priced(None, ("a",), class_name, model, adapter, Figures(1, 0, prompt, cached, output))
        for class_name, model, adapter, prompt, cached, output in rows
    ]


def test_the_first_price_that_fits_is_taken() -> None:
    """For a million tokens; without a price for cached ones they cost what the others do."""
    prices = Prices.parse(PRICES)
    (row,) = costed(parts(("batch", "base", "lora", 3_000_000, 1_000_000, 1_000_000)), prices)
    assert row.cost == 3 + 2
    (row,) = costed(parts(("normal", "base", "lora", 3_000_000, 1_000_000, 1_000_000)), prices)
    assert row.cost == 2 * 10 + 1 + 20


def test_a_row_of_which_a_part_has_no_price_has_no_cost() -> None:
    """None is right; a refused request, and what the server itself ran, cost nothing."""
    prices = Prices.parse(PRICES)
    priced = ("batch", "base", "", 1_000_000, 0, 0)
    assert costed(parts(priced, ("normal", "base", "", 1, 0, 0)), prices)[0].cost is None
    assert costed(parts(priced, ("normal", "base", "", 0, 0, 0), ("", "base", "", 5, 0, 5)), prices)[0].cost == 1
    assert costed(parts(priced), None)[0].cost is None


BAD_PRICES = {
    "no TOML": "[[prices",
    "prices": "currency = 'EUR'",
    "prices.0.output": "[[prices]]\nprompt = 1",
    "prices.0.prompt": "[[prices]]\nprompt = -1\noutput = 1",
    "prices.0.colour": "[[prices]]\nprompt = 1\noutput = 1\ncolour = 1",
    "prices.0.cached": "[[prices]]\nprompt = 1\noutput = 1\ncached = nan",
}


@pytest.mark.parametrize("place", BAD_PRICES)
def test_a_wrong_table_of_prices_names_the_place(place: str) -> None:
    """In one line."""
    with pytest.raises(PricesError, match=f"^{place}: ") as caught:
        Prices.parse(BAD_PRICES[place])
    assert "\n" not in str(caught.value)


def used(tokens: int) -> Figures:
    """One request with so many tokens."""
    return Figures(1, 0, tokens)


def test_labels_are_bounded_and_the_sum_is_that_of_all() -> None:
    """However many tenants there are."""
    top = TopTenants(4)
    for number in range(1000):
        top.add(f"t{number}", used(10))
    counts = top.counts()
    assert len(counts) == 5
    assert sum(figures.requests for figures in counts.values()) == 1000
    assert counts[OTHER].prompt_tokens == 996 * 10


def test_a_tenant_that_clearly_uses_more_gets_a_label_at_the_next_review() -> None:
    """From 0 on; and no counter ever falls while its label is there."""
    top, seen = TopTenants(2), []
    for tenant, tokens in (("a", 100), ("b", 10), ("c", 15), ("d", 1000)):
        top.add(tenant, used(tokens))
    seen.append(top.counts())
    top.review()
    top.add("d", used(7))
    seen.append(top.counts())
    assert set(seen[0]) == {"a", "b", OTHER}
    assert set(seen[1]) == {"a", "d", OTHER}
    assert seen[1]["d"].prompt_tokens == 7
    top.add("c", used(15))
    top.review()
    seen.append(top.counts())
    assert set(seen[2]) == {"a", "d", OTHER}
    for before, after in pairwise(seen):
        assert all(before[name].prompt_tokens <= after[name].prompt_tokens for name in before.keys() & after.keys())


def test_the_name_of_all_others_never_has_a_label_of_its_own() -> None:
    """A tenant of that name is counted among them, also where there is no other."""
    top = TopTenants(2)
    top.add(OTHER, used(10))
    top.review()
    assert top.counts() == {OTHER: used(10)}
