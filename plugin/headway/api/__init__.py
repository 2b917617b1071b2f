"""The contract of the admin API: models, routes, the OpenAPI document, the client, and its errors.

The server, the command line and the dashboard share it, and ``secret_text``, where tokens come from. It imports nothing
else of Headway (but for the reading of a file), and needs pydantic and requests only.
"""

from headway.api.bounded_session import AnswerTooLargeError, BoundedAdapter, bounded_session
from headway.api.client import AdminClient, is_loopback
from headway.api.errors import (
    AdminError,
    BadUrlError,
    InvalidOrderError,
    NoAnswerInTimeError,
    NotHeadwayError,
    RefusedError,
    RoleError,
    StaleError,
    SwitchedOffError,
    TlsError,
    TokenRefusedError,
    TooLargeError,
    UnreachableError,
)
from headway.api.schema import (
    ClassStatus,
    CurrentPreset,
    EngineStatus,
    FallbackState,
    OrderedLimit,
    PresetEntry,
    PresetList,
    RecycleAccepted,
    Setting,
    SettingChange,
    Status,
    Switched,
    Traffic,
    Trial,
    WarmupStatus,
)

__all__ = [
    "AdminClient",
    "AdminError",
    "AnswerTooLargeError",
    "BadUrlError",
    "BoundedAdapter",
    "ClassStatus",
    "CurrentPreset",
    "EngineStatus",
    "FallbackState",
    "InvalidOrderError",
    "NoAnswerInTimeError",
    "NotHeadwayError",
    "OrderedLimit",
    "PresetEntry",
    "PresetList",
    "RecycleAccepted",
    "RefusedError",
    "RoleError",
    "Setting",
    "SettingChange",
    "StaleError",
    "Status",
    "Switched",
    "SwitchedOffError",
    "TlsError",
    "TokenRefusedError",
    "TooLargeError",
    "Traffic",
    "Trial",
    "UnreachableError",
    "WarmupStatus",
    "bounded_session",
    "is_loopback",
]
