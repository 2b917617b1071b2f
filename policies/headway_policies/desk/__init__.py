"""The desk: the admission state machine of one engine, from a request's arrival to its one outcome.

Each event takes the time and returns effects, which a shell (server, simulator, Batcher) carries out.
"""

from headway_policies.desk.books.ledger import ClassLedger, Ledger
from headway_policies.desk.books.transitions import Phase
from headway_policies.desk.capacity import CapReason
from headway_policies.desk.desk import Desk
from headway_policies.desk.dump import dump
from headway_policies.desk.effects import Abort, Degrade, Dispatch, Effect, Expire, Recall, Reject, Requeue, WakeAt
from headway_policies.desk.mode import ENGINE_BLOCKS, AdmissionState, Block
from headway_policies.desk.reading import DeskReading

__all__ = [
    "ENGINE_BLOCKS",
    "Abort",
    "AdmissionState",
    "Block",
    "CapReason",
    "ClassLedger",
    "Degrade",
    "Desk",
    "DeskReading",
    "Dispatch",
    "Effect",
    "Expire",
    "Ledger",
    "Phase",
    "Recall",
    "Reject",
    "Requeue",
    "WakeAt",
    "dump",
]
