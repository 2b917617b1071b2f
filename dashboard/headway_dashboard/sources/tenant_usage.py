"""Use by tenant from the accounting of each server, kept fresh while a page shows it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from headway.api import AdminError, RoleError, SwitchedOffError, TokenRefusedError
from headway.api.schema import UsageReport
from headway_dashboard.analysis.view import Span
from headway_dashboard.server_client import admin_client
from headway_dashboard.sources.polled import FIRST_WAIT_S, REFUSED_FOR_S, Polled

_EVERY_S = 5.0
#: The groups that the requests of a tenant are divided into.
PARTS = "class,key,model,outcome,reason"
NEEDED = (
    "The accounting is shown to holders of a token: start the dashboard with the server's token in "
    "HEADWAY_VIEWER_TOKEN, HEADWAY_ADMIN_TOKEN, or a file that the same name with _FILE names."
)
_UNKNOWN = f"The server does not know this token. {NEEDED}"
_OFF = "The server's admin API is off: set HEADWAY_ADMIN_TOKEN on the server and here, and start both again."


@dataclass(frozen=True, slots=True)
class TenantUsage:
    """The use of all tenants, and the parts of the chosen tenant's; ``problem`` is the reason of missing figures."""

    of_all: UsageReport | None = None
    of_chosen: UsageReport | None = None
    problem: str = ""


class TenantUsageSource(Polled[TenantUsage]):
    """Polls the use in a range, of minutes that have begun; ``tenant`` None: none is chosen."""

    def __init__(
        self, url: str, token: str | None, span: Span, tenant: str | None, *, interval_s: float = _EVERY_S
    ) -> None:
        super().__init__(admin_client(url, token, lenient=True), TenantUsage(), interval_s)
        self._has_token = token is not None
        self._asked, self._tenant = _range(span), tenant
        self._refused_until_s, self._refused = 0.0, ""

    def _ask(self) -> TenantUsage:
        if not self._has_token:
            return TenantUsage(problem=NEEDED)
        if self._clock() < self._refused_until_s:  # a server locks out an address with too many wrong tokens
            return TenantUsage(problem=self._refused)
        try:
            of_all = self._client.usage(by="tenant", **self._asked)
            if self._tenant is None:
                return TenantUsage(of_all)
            return TenantUsage(of_all, self._client.usage(by=PARTS, tenant=self._tenant, **self._asked))
        except (TokenRefusedError, RoleError, SwitchedOffError) as error:
            self._refused_until_s = self._clock() + REFUSED_FOR_S
            self._refused = _OFF if isinstance(error, SwitchedOffError) else _UNKNOWN
            return TenantUsage(problem=self._refused)
        except AdminError as error:
            return TenantUsage(problem=str(error))


def read_together(sources: Mapping[str, TenantUsageSource]) -> dict[str, TenantUsage]:
    """The usage report of each source. The first reading waits a second at most, for all together."""
    for source in sources.values():
        source.begin()
    until_s = time.monotonic() + FIRST_WAIT_S
    return {name: source.read(max(0.0, until_s - time.monotonic())) for name, source in sources.items()}


def _range(span: Span) -> dict[str, str]:
    """The parameters of the route for a range."""
    if span.end_s is None:
        return {"since": f"{span.range_s:.0f}s"}
    return {"since": _time(span.end_s - span.range_s), "until": _time(span.end_s)}


def _time(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).isoformat()
