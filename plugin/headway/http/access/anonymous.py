"""The tenant of requests without keys.

Without a keys file and without keys of vLLM's own every client is the tenant ``anonymous``. It has the default class of
the preset and the less urgent ones, since any client may call itself urgent, and caps that bound what one request can
hold:

    output tokens   32,768   above the 32,000 that agents ask for; a class's time-outs end a longer answer anyway
    sequences       8        ``n`` and ``best_of``
    prompts         128      texts in one body: clients that embed documents send 100 at once
"""

from __future__ import annotations

from typing import Final

from headway.http.access.identity import Identity
from headway_policies import Preset
from headway_policies.entitlement import Entitlement, RequestCaps

ANONYMOUS: Final = "anonymous"
ANONYMOUS_CAPS: Final = RequestCaps(output_tokens=32_768, sequences=8, prompts=128)


def anonymous_entitlement(preset: Preset) -> Entitlement:
    """The entitlement of the tenant ``anonymous`` under this preset."""
    ranked = preset.by_urgency()
    allowed = frozenset(ranked[ranked.index(preset.default_class) :])
    return Entitlement(ANONYMOUS, classes=allowed, default_class=preset.default_class, caps=ANONYMOUS_CAPS)


class AnonymousIdentity:
    """The identity of the tenant ``anonymous``, made once for each preset that comes into force."""

    __slots__ = ("_identity", "_preset")

    def __init__(self) -> None:
        self._preset: Preset | None = None
        self._identity: Identity | None = None

    def under(self, preset: Preset) -> Identity:
        """The identity under this preset."""
        if self._identity is None or preset is not self._preset:
            self._preset, self._identity = preset, Identity(anonymous_entitlement(preset))
        return self._identity
