"""What the tests ask of a gate in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from headway.admission.gate import Gate, Permit
from headway_policies import Desk, Ending, Outcome, Usage


@asynccontextmanager
async def seated(gate: Gate, class_name: str | None = None) -> AsyncIterator[Permit]:
    """A block with a seat. Raises what the permit does, and settles it by the way the block ends."""
    permit, ending = gate.enter(class_name), Ending.FAILED
    try:
        await permit.admitted()
        yield permit
        permit.check()
        ending = Ending.COMPLETED
    except asyncio.CancelledError:
        ending = Ending.CANCELLED
        raise
    finally:
        permit.leave(ending)


def outcomes(gate: Gate) -> dict[str, int]:
    """How many requests ended how; no class has one too many or too few."""
    total: Counter[Outcome] = Counter()
    for counts in gate.desk.ledger.classes.values():
        assert counts.balanced
        total += counts.outcomes
    return {str(outcome): number for outcome, number in total.items()}


def assert_at_rest(gate: Gate) -> None:
    """Nothing waits, runs or is kept."""
    assert (gate.desk.seats_taken, gate.desk.ledger.queued, gate.desk.ledger.in_flight) == (0, 0, 0)
    assert gate._permits == {}
    assert gate.dump()["waiting"] == gate.dump()["running"] == []


async def served(gate: Gate, for_s: float, log: list[str], name: str, class_name: str | None = None) -> None:
    """Note the name in the seat that is waited for, and keep that for a time."""
    async with seated(gate, class_name):
        log.append(name)
        await asyncio.sleep(for_s)


def usages(monkeypatch: pytest.MonkeyPatch) -> list[Usage | None]:
    """The usage of every ticket that ends, as the desk gets it."""
    seen: list[Usage | None] = []
    leave = Desk.leave

    def noting(
        desk: Desk, ticket_id: int, ending: Ending, now_s: float, usage: Usage | None = None, *, sequences: int = 0
    ) -> object:
        seen.append(usage)
        return leave(desk, ticket_id, ending, now_s, usage, sequences=sequences)

    monkeypatch.setattr(Desk, "leave", noting)
    return seen
