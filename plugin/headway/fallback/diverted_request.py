"""The data of a diverted request that its target needs for an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.types import Receive, Send

from headway.admission.request_context import LoweredClass


@dataclass(frozen=True, slots=True)
class DivertedRequest:
    """An HTTP request whose ``body`` has been read in whole: ``receive`` is only watched for a disconnect.

    Header names are in lower case. ``timeout_s`` is what is left of its time, None where it has no end;
    ``lowered`` says that it asked for a class above its rights.
    """

    path: str
    body: bytes
    headers: Mapping[str, str]
    receive: Receive
    send: Send
    class_name: str
    timeout_s: float | None = None
    lowered: LoweredClass | None = None
