"""The bounds of a request: its bytes, and the time they may take.

    head    the request target: 8 KiB (414); all header fields: HEADWAY_MAX_HEADER_BYTES,
            HEADWAY_MAX_HEADER_FIELDS of them (431)
    body    of one request: by route, never more than HEADWAY_MAX_BODY_BYTES (413); a file that is uploaded has
            HEADWAY_BATCH_FILE_BYTES
    bodies  of all requests that are not queued yet: HEADWAY_MAX_BODIES_BYTES (503)
    time    HEADWAY_BODY_TIMEOUT_S for head and body, extended by bytes at HEADWAY_MIN_BODY_BYTES_PER_S (408)
    open connections: HEADWAY_MAX_CONNECTIONS, and of one address HEADWAY_MAX_CONNECTIONS_PER_ADDRESS (503)

From the server's environment only. The sizes of head and target are those nginx and Apache have by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headway.errors import HeadwayError
from headway.openai.routes import BodySize, Route
from headway.settings import Environment

KIB: Final = 1024
MIB: Final = 1024 * KIB

MAX_TARGET_BYTES: Final = 8 * KIB
_TEXT_BYTES: Final = 8 * MIB  # a million token ids
_OTHER_BYTES: Final = MIB
_FORM_BYTES: Final = 64 * KIB  # around a file

_BYTES_PER_TOKEN: Final = 16


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds in force.

    ``prompt_embeds`` says that vLLM takes tensors as prompts of ``/v1/completions``; ``context_tokens`` is the longest
    prompt of the model, where it is known. ``max_connections_per_address`` None: no bound, for they may be a proxy's.
    """

    max_header_bytes: int = Environment.max_header_bytes.default
    max_body_bytes: int = Environment.max_body_bytes.default
    max_bodies_bytes: int = Environment.max_bodies_bytes.default
    body_timeout_s: float = Environment.body_timeout_s.default
    min_body_bytes_per_s: int = Environment.min_body_bytes_per_s.default
    prompt_embeds: bool = False
    context_tokens: int | None = None
    max_header_fields: int = Environment.max_header_fields.default
    max_connections: int = Environment.max_connections.default
    max_connections_per_address: int | None = None
    max_file_bytes: int = Environment.batch_file_bytes.default

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Bounds:
        """Read the environment. Raises HeadwayError in one line that names the variable."""
        found = Environment(environment)
        bodies, bodies_bytes = Environment.max_bodies_bytes, found.max_bodies_bytes
        if not found.given.get(bodies.name):
            bodies_bytes = max(bodies.default, found.max_body_bytes)
        if bodies_bytes < found.max_body_bytes:
            wanted = f"at least {Environment.max_body_bytes.name} ({found.max_body_bytes}) is needed"
            raise HeadwayError(f"{bodies.name}: {wanted}, not {bodies_bytes}")
        return cls(
            max_header_bytes=found.max_header_bytes,
            max_body_bytes=found.max_body_bytes,
            max_bodies_bytes=bodies_bytes,
            body_timeout_s=found.body_timeout_s,
            min_body_bytes_per_s=found.min_body_bytes_per_s,
            max_header_fields=found.max_header_fields,
            max_connections=found.max_connections,
            max_connections_per_address=found.max_connections_per_address,
            max_file_bytes=found.batch_file_bytes,
        )

    def body_bytes(self, route: Route) -> int:
        """The largest body accepted on a route: less where no image, audio or tensor is allowed."""
        if route.body is BodySize.FILE:
            return self.max_file_bytes + _FORM_BYTES
        if route.body is BodySize.MEDIA or (self.prompt_embeds and "prompt_embeds" in route.prompts):
            return self.max_body_bytes
        if route.body is BodySize.ONE_TEXT:
            return min(self.max_body_bytes, self._one_text_bytes())
        return min(self.max_body_bytes, _TEXT_BYTES if route.body is BodySize.TEXT else _OTHER_BYTES)

    def _one_text_bytes(self) -> int:
        """Several times the longest prompt, between the bounds of the routes that need less and more."""
        if self.context_tokens is None:
            return _TEXT_BYTES
        return max(_OTHER_BYTES, min(_TEXT_BYTES, self.context_tokens * _BYTES_PER_TOKEN))
