"""The target of a server's diverted requests: another model behind HTTP, or a fixed reply."""

from __future__ import annotations

from collections.abc import Mapping

from headway.fallback.client import FallbackClient
from headway.fallback.fixed_reply import FixedReply
from headway.fallback.settings import FallbackSettings, fixed_reply

FallbackTarget = FallbackClient | FixedReply


def target_from_environment(environment: Mapping[str, str] | None = None) -> FallbackTarget | None:
    """The target that the environment names; None without a name. Raises HeadwayError in one line."""
    reply, settings = fixed_reply(environment), FallbackSettings.from_environment(environment)
    if reply is not None:
        return FixedReply(*reply)
    return None if settings is None else FallbackClient(settings)
