"""What is kept of clients that nobody knows has an end, however many they are and however they name themselves."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from cost_growth import kept_bytes
from hostile_requests import audit_of

from headway.admission.engine_calls import Calls
from headway.audit import Audit, Caller
from headway_policies.prediction.estimators import LengthEstimate
from headway_policies.queueing.fair_share import FairShare
from headway_policies.request.ticket import Ticket, Usage

pytestmark = pytest.mark.slow

#: In place of the thousands of tenants that a line remembers.
FEW = 256
#: What is kept of untrusted clients, after so many of them; from the first number on it is full.
KEPT: dict[str, tuple[Callable[[int], object], int]] = {
    "attempts without a token": (lambda number: audit_of(b"x", number), 200),
    "attempts of a viewer": (lambda number: audit_of(b"x", number, role="viewer"), 400),
    "attempts that are repeated": (lambda number: repeated(number), 50),
    "tenants with a fair share": (lambda number: fair_line_of(number), 2 * FEW),
    "tenants with a history": (lambda number: histories_of(number), 2048),
}


def repeated(number: int) -> Audit:
    """An audit after the same attempt again and again."""
    audit = Audit()
    for _ in range(number):
        audit.refuse(Caller(address="1.2.3.4"), "GET /headway/v1/status", "no token", preset="p", revision=1)
    return audit


def fair_line_of(number: int) -> FairShare:
    """A fair-share discipline after requests of so many tenants."""
    line = FairShare()
    for at in range(number):
        ticket = Ticket(at, "normal", float(at), tenant=f"{at:0128}")
        line.push(ticket, 10.0, float(at))
        line.charge(ticket, 10.0)
        line.remove(at)
    return line


def histories_of(number: int) -> LengthEstimate:
    """The length statistics of so many tenants."""
    lengths = LengthEstimate()
    for at in range(number):
        lengths.ended(Ticket(at, "normal", 0.0, tenant=f"{at:0128}", max_tokens=16), Usage(5, 5))
    return lengths


@pytest.mark.parametrize("case", KEPT)
def test_what_is_kept_of_strangers_has_an_end(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times as many, once it is full, are kept in the same memory."""
    monkeypatch.setattr("headway_policies.queueing.fair_share.RECENT", FEW)
    keep, full = KEPT[case]
    once = kept_bytes(lambda: keep(full))
    assert kept_bytes(lambda: keep(4 * full)) <= 1.5 * once


def test_a_long_id_is_not_kept() -> None:
    """A client may name its request as it likes; what is written down of the name has an end, and stays apart."""
    calls, permit = Calls(), SimpleNamespace(
        ticket=SimpleNamespace(id=1, seats=9), requeues=0, watched=False, begun=False, in_engine=0, ended_sequences=0,
        occupy=lambda seats: None, account=None,
    )  # fmt: skip
    names = ["x" * 100_000, "x" * 100_001, "x" * 100_000, "a\nERROR forged line\x1b[31m", "\ud800", "plain"]
    ids = [calls.open(permit, name, 1, unstreamed=False, ends_late=False).id for name in names]  # type: ignore[arg-type]  # all that is asked of one
    assert len(set(ids)) == len(ids)
    assert all(len(one) < 230 and one.isprintable() for one in ids)
    assert ids[-1] == "plain"
