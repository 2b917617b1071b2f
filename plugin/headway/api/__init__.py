"""The contract of the admin API: its schema, its client with bounded answers, and its errors.

The server, the command line and the dashboard share it.
"""

from headway.api.bounded_session import bounded_session
from headway.api.client import AdminClient, RefusedOrderError, RefusedPresetError, StaleError, connect, is_loopback
from headway.api.errors import INTERRUPTED, CliError, Exit, FailedError, ServerUnreachableError, UsageError
from headway.api.schema import ClassNow, FallbackNow, PresetEntry, RecycleAccepted, Status, Switched
from headway.api.token import check_length, find_token

__all__ = [
    "INTERRUPTED",
    "AdminClient",
    "ClassNow",
    "CliError",
    "Exit",
    "FailedError",
    "FallbackNow",
    "PresetEntry",
    "RecycleAccepted",
    "RefusedOrderError",
    "RefusedPresetError",
    "ServerUnreachableError",
    "StaleError",
    "Status",
    "Switched",
    "UsageError",
    "bounded_session",
    "check_length",
    "connect",
    "find_token",
    "is_loopback",
]
