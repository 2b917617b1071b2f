"""What an operator demands of orders beyond a token: from the server's environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headway.errors import HeadwayError
from headway.http.admin.origin import origin_of
from headway.variables import whole_number

_ORIGINS, _REASON, _RATE = "HEADWAY_ADMIN_ORIGINS", "HEADWAY_REQUIRE_REASON", "HEADWAY_ADMIN_ORDERS_PER_MINUTE"
_ORDERS_PER_MINUTE: Final = 20
_MAX_ORIGINS: Final = 100


@dataclass(frozen=True, slots=True)
class AdminRules:
    """The rules in force.

    ``origins``: the pages beside those of the server itself that may send orders. ``require_reason``: whether an order
    must have a reason and a name. ``orders_per_minute``: of each token; so many may come at once.
    """

    origins: frozenset[str] = frozenset()
    require_reason: bool = False
    orders_per_minute: int = _ORDERS_PER_MINUTE

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> AdminRules:
        """Read the environment. Raises HeadwayError in one line that names the variable."""
        found = os.environ if environment is None else environment
        return cls(
            origins=_origins(found.get(_ORIGINS, "")),
            require_reason=_switch(found, _REASON),
            orders_per_minute=whole_number(found, _RATE, _ORDERS_PER_MINUTE),
        )


def _origins(text: str) -> frozenset[str]:
    """A list of origins with commas between them."""
    listed = [one.strip() for one in text.split(",") if one.strip()]
    if len(listed) > _MAX_ORIGINS:
        raise HeadwayError(f"{_ORIGINS}: {_MAX_ORIGINS} origins at most are needed, not {len(listed)}")
    origins = {one: origin_of(one) for one in listed}
    for one, origin in origins.items():
        if origin is None:
            wanted = "origins with commas between them, such as https://ops.example:8443, are needed"
            raise HeadwayError(f"{_ORIGINS}: {wanted}, not {one[:60]!r}")
    return frozenset(origin for origin in origins.values() if origin is not None)


def _switch(environment: Mapping[str, str], variable: str) -> bool:
    value = environment.get(variable) or "0"
    if value not in ("0", "1"):
        raise HeadwayError(f"{variable}: 1 or 0 is needed, not {value[:40]!r}")
    return value == "1"
