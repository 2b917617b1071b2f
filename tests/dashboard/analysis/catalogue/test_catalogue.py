"""The catalogue by pages: every panel can be drawn, has a name of its own, and asks for metrics that exist."""

from __future__ import annotations

import asyncio
import re
from itertools import chain

import pytest
from prometheus_client import CollectorRegistry
from vllm_source import found_source

from headway.engine.fake import FakeEngine
from headway.engine.port import PlainAdapter
from headway.operator.install import install, prepare
from headway.operator.metrics import METRIC_NAMES, Meters, MetricsCollector
from headway.operator.presets import PresetCatalogue
from headway_dashboard.analysis.catalogue import ALL_PANELS, panels
from headway_dashboard.analysis.catalogue.panels import Panel
from headway_dashboard.analysis.diagnosis import alerts
from headway_dashboard.analysis.queries.metric import names_of
from headway_dashboard.page import PAGES

EVERY = [(page, panel) for page, shown in ALL_PANELS.items() for panel in shown]
_PARTS = ("", "_bucket", "_count", "_sum")


def asked() -> set[str]:
    """The names of all metrics that any page asks for."""
    shown = chain.from_iterable(panel.expressions for _, panel in EVERY)
    others = (*alerts.EXPRESSIONS, *panels.CPU_PANEL.expressions)
    return {name for expression in (*shown, *others) for name in names_of(expression)}


def of_the_engine() -> set[str]:
    """The names that the installed vLLM gives its metrics, as they stand in its source."""
    source = found_source()
    text = None if source is None else source.text("vllm.v1.metrics.loggers")
    if text is None:
        pytest.skip("vLLM is not installed")
    names = set(re.findall(r'name="(vllm:\w+)"', text))
    return names | {f"{name}_total" for name in names}


def test_every_metric_of_headway_exists() -> None:
    """A renamed metric fails here instead of leaving a panel dead."""
    known = {name + part for name in METRIC_NAMES for part in _PARTS}
    assert {name for name in asked() if name.startswith("headway_")} - known == set()


async def test_a_class_filter_applies_to_metrics_with_a_class_alone() -> None:
    """A filter on a metric without classes, or on none of this name, would leave a chart empty."""
    registry, catalogue = CollectorRegistry(), PresetCatalogue()
    meters = Meters.for_presets(catalogue, registry)
    control = install(prepare(FakeEngine(), PlainAdapter(), catalogue.get("latency"), meters=meters), catalogue)
    registry.register(MetricsCollector(control.snapshot, asyncio.get_running_loop()))
    samples = [sample for family in registry.collect() for sample in family.samples if "class" in sample.labels]
    by_class = {sample.name for sample in samples} | {sample.name.removesuffix("_bucket") for sample in samples}
    assert panels.BY_CLASS - by_class == set()


def test_every_metric_of_the_engine_exists() -> None:
    """The same for those of vLLM, by the text of its source."""
    known = {name + part for name in of_the_engine() for part in _PARTS}
    asked_of_it = {name for name in asked() if not name.startswith("headway_")}
    assert asked_of_it
    assert asked_of_it - known == set()


def test_pages_and_catalogue_agree() -> None:
    """The exported panels are those that are shown."""
    assert set(ALL_PANELS) == {page.title for page in PAGES} - {"Control"}
    assert list(ALL_PANELS) == [
        "Overview", "Fleet", "Latency & SLO", "Requests & priorities", "Tenants", "Batching & memory",
        "Server & diagnostics",
    ]  # fmt: skip


@pytest.mark.parametrize("page", ALL_PANELS)
def test_panels_of_a_page_have_ids_and_titles_of_their_own(page: str) -> None:
    """Two charts of one id would share a node, and two of one title could not be told apart in the CSV."""
    shown = ALL_PANELS[page]
    assert len({panel.id for panel in shown}) == len({panel.title for panel in shown}) == len(shown)


@pytest.mark.parametrize(("page", "panel"), EVERY, ids=[f"{page}: {panel.id}" for page, panel in EVERY])
def test_a_panel_says_what_it_is(page: str, panel: Panel) -> None:
    """A help text and a caption in sentences; a word for an empty chart wherever nothing may have happened."""
    assert panel.help.endswith((".", "?"))
    assert panel.caption.endswith(".")
    assert not (panel.quiet or panel.idle).endswith(".")
    heat = any(line.kind == "heat" for line in panel.lines)
    assert not heat or len(panel.lines) == 1
    assert (panel.across is not None) == any(line.kind == "dots" for line in panel.lines)
