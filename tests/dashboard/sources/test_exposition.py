"""The scrapes of one server, read one after the other: each as the parser of Prometheus reads it alone."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from stub_server import StubServer

from headway_dashboard.sources import exposition
from headway_dashboard.sources.exposition import SampleKey, ScrapeReader

QUEUED = "headway_queue_depth"
HEADS = (
    "headway_a", "headway_a{}", 'headway_a{b="c"}', 'headway_a{b="c} d"}', 'headway_a{b="c d"}', 'headway_a{b="}"',
    "headway_a{} 5", "headway_a 5", "headway_a{} 5 }", "# TYPE headway_a", "# HELP headway_a", "# TYPE headway_b", "",
    " headway_a", "headway_a\t7", "process_start_time_seconds", "vllm_x_info", 'vllm_x_total{e="1"}', "other",
)  # fmt: skip
LINES = st.tuples(
    st.sampled_from(HEADS), st.sampled_from([" ", " ", " ", "\t", "", "  "]),
    st.sampled_from(["1", "2.5", "NaN", "+Inf", "-0", "1_0", "5\t6", "5 ", "", "\t", "counter", "gauge", "x"]),
)  # fmt: skip
TEXTS = st.lists(LINES, max_size=4).map(lambda lines: "\n".join(map("".join, lines)))


def read(reader: ScrapeReader, text: str) -> list[tuple[SampleKey, str]] | None:
    """What a scrape says, with values that compare; None for text that is none."""
    try:
        return [(key, "NaN" if math.isnan(value) else repr(float(value))) for key, value in reader.read(text)]
    except ValueError:
        return None


@given(st.lists(TEXTS, min_size=2, max_size=2), st.lists(st.integers(0, 1), min_size=3, max_size=6))
def test_what_was_read_before_changes_nothing(texts: list[str], turns: list[int]) -> None:
    """Whatever two texts follow each other; each is read as by a reader that has seen none."""
    reader = ScrapeReader()
    for turn in turns:
        assert read(reader, texts[turn]) == read(ScrapeReader(), texts[turn])


@given(st.lists(st.tuples(st.sampled_from(HEADS), st.sampled_from(["1", "2"]), st.sampled_from(["3", "1_0", "5\t6"]))))
def test_new_values_of_the_same_series_are_read(lines: list[tuple[str, str, str]]) -> None:
    """Also where a value is none, or a time stands behind it."""
    reader = ScrapeReader()
    for at in (1, 2, 1):
        text = "\n".join(f"{line[0]} {line[at]}" for line in lines)
        assert read(reader, text) == read(ScrapeReader(), text)


def test_the_same_series_are_parsed_once(stub: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """And again when a series comes; the text of a stub is that of the client of Prometheus."""
    parsed: list[str] = []
    families = text_string_to_metric_families
    monkeypatch.setattr(
        exposition, "text_string_to_metric_families", lambda text: (parsed.append(text), families(text))[1]
    )
    reader = ScrapeReader()
    for turn in range(6):
        stub.world.queued["batch"] = turn
        if turn == 4:
            stub.world.switch("latency", {}, "")
        text = stub.scrape()
        assert text == generate_latest(stub._registry)
        queued = {dict(key[1])["class"]: value for key, value in reader.read(text.decode()) if key[0] == QUEUED}
        assert queued["batch"] == turn
    assert len(parsed) == 2
