"""The entitlement of a tenant: classes, a share, rates and caps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headway_policies.budgets import Owned
from headway_policies.entitlement.caps import RequestCaps


@dataclass(frozen=True, slots=True)
class Entitlement:
    """The rights of one tenant.

    ``classes`` None: every class. ``default_class`` is that of a request that names none; None: the preset's.
    ``share`` weighs the tenant against others of the same class (1: as much as any other). Rates are per minute;
    None: no bound. ``budgets`` are its own, and that of its organisation after it.
    """

    tenant: str
    classes: frozenset[str] | None = None
    default_class: str | None = None
    share: float = 1.0
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    caps: RequestCaps = field(default_factory=RequestCaps)
    budgets: tuple[Owned, ...] = ()

    @property
    def has_rates(self) -> bool:
        """Whether a rate bounds the tenant."""
        return self.requests_per_minute is not None or self.tokens_per_minute is not None

    def effective_class(self, asked: str, by_urgency: Sequence[str]) -> str:
        """The class a request gets that asks for ``asked``; ``by_urgency`` are the preset's, the most urgent first.

        The asked class where it is allowed, else the next less urgent one that is. Where none of those is allowed, it
        is the least urgent class of the preset, which every tenant may use.
        """
        if self.classes is None or asked in self.classes:
            return asked
        lower = by_urgency[by_urgency.index(asked) + 1 :]
        return next((name for name in lower if name in self.classes), by_urgency[-1])
