"""The custom policy of how-to/write-a-policy.md: it works as printed there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from running_server import ROOT

from headway_policies import Desk, Dispatch, Ending, Preset, Ticket, parse_preset
from headway_policies.conformance.orders import check_discipline
from headway_policies.import_path import find_class

PAGE = ROOT / "deploy/site/docs/how-to/write-a-policy.md"
PRESET = """
name = "shortest"
extends = "balanced"
batching.seats = 1
classes = { realtime = false, batch = false }
ordering.inside = "shortest:ShortestFirst"
"""


@pytest.fixture
def preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Preset]:
    """A preset that names the class of the page, which is a module on the import path."""
    blocks: list[str] = re.findall(r"```py(?:thon)?\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (example,) = [block for block in blocks if "class ShortestFirst" in block]
    (tmp_path / "shortest.py").write_text(example, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield parse_preset(PRESET, "page")
    sys.modules.pop("shortest")


def test_it_serves_the_shortest_expected_first(preset: Preset) -> None:
    """Behind the one that runs, the order is by expected tokens and not by arrival."""
    desk = Desk(preset)
    for number, prompt_tokens in enumerate((50, 900, 10, 300)):
        desk.arrive(Ticket(number, "normal", 0.0, prompt_tokens=prompt_tokens, max_tokens=8), now_s=0.0)
    gone = [0]
    while len(gone) < 4:
        effects = desk.leave(gone[-1], Ending.COMPLETED, now_s=1.0)
        gone += [one.ticket_id for one in effects if isinstance(one, Dispatch)]
    assert gone == [0, 2, 3, 1]


def test_it_conforms_to_the_protocol_of_a_discipline(preset: Preset) -> None:
    """The policy passes the conformance suite, as the page says."""
    check_discipline(find_class(preset.ordering.inside))
