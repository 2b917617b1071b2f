"""The table of a ticket's transitions: every pair, its diagram in the README, and the one module that applies it."""

from __future__ import annotations

import ast
from dataclasses import fields
from itertools import product
from pathlib import Path

import pytest

from headway_policies.desk import lifecycle
from headway_policies.desk.books.record import Record
from headway_policies.desk.books.transitions import NEXT, Event, IllegalTransitionError, Phase, after

W, R, S, E = Phase.WAITING, Phase.RUNNING, Phase.SETTLED, Phase.ENDED

#: Each event's phase afterwards, from WAITING, RUNNING, SETTLED and ENDED; None where it must not happen.
EXPECTED: dict[Event, tuple[Phase | None, Phase | None, Phase | None, Phase | None]] = {
    Event.DISPATCH: (R, None, None, None),
    Event.REFUSE: (E, None, None, None),
    Event.REQUEUE: (None, W, None, None),
    Event.RECALL: (None, W, None, None),
    Event.ABORT: (None, S, None, None),
    Event.LEAVE: (E, E, E, None),
    Event.LEAVE_EARLY: (None, S, S, None),
    Event.RELEASE: (None, None, E, None),
}


@pytest.mark.parametrize(("phase", "event"), list(product(Phase, Event)))
def test_every_pair_of_a_phase_and_an_event(phase: Phase, event: Event) -> None:
    """Each pair leads to the phase that is expected, or raises: no pair is left out."""
    expected = EXPECTED[event][list(Phase).index(phase)]
    if expected is None:
        with pytest.raises(IllegalTransitionError, match=f"{event} cannot happen to a ticket that is {phase}"):
            after(phase, event)
    else:
        assert after(phase, event) is expected


def test_every_phase_is_reached_and_left_but_the_last() -> None:
    """No phase is a trap, and none follows the end."""
    assert {then for (before, _), then in NEXT.items() if then is not before} == set(Phase)
    assert {before for before, _ in NEXT} == {W, R, S}
    assert {event for _, event in NEXT} == set(Event)


def test_only_the_lifecycle_changes_a_record() -> None:
    """No other module of the desk assigns to a field of a record."""
    names, writers = {one.name for one in fields(Record)}, set[str]()
    for path in Path(lifecycle.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del) and node.attr in names:
                holder = node.value.id if isinstance(node.value, ast.Name) else ast.unparse(node.value)
                if holder != "self":
                    writers.add(path.name)
    assert writers == {"lifecycle.py"}
