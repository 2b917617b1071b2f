"""The tenants and the keys of a keys file, as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from headway.keys import Key, KeyRing
from headway_policies.budgets import Budget
from headway_policies.entitlement import Entitlement
from headway_tools.console import table

_TENANT = ("tenant", "classes", "default class", "share", "requests/min", "tokens/min", "caps", "budget")
_KEY = ("key", "tenant", "created", "expires", "state", "note")


def as_text(ring: KeyRing, now: datetime) -> str:
    """Two tables. Times are in UTC."""
    if not ring.tenants:
        return "no tenants; make one, and its first key, with: headway keys add --tenant NAME"
    tenants = table(_TENANT, [_tenant_row(tenant) for tenant in ring.tenants.values()], indent="")
    if not ring.keys:
        return f"{tenants}\n\nno keys; make one with: headway keys add --tenant NAME"
    return f"{tenants}\n\n{table(_KEY, [_key_row(key, now) for key in ring.keys], indent='')}"


def as_json(ring: KeyRing, now: datetime) -> dict[str, Any]:
    """The same as an object, with every field of the file but the digests."""
    keys = [
        {
            "id": key.id,
            "tenant": key.tenant,
            "created": key.created.isoformat(),
            "expires": None if key.expires is None else key.expires.isoformat(),
            "expired": _expired(key, now),
            "note": key.note,
        }
        for key in ring.keys
    ]
    return {"tenants": [_tenant_fields(tenant) for tenant in ring.tenants.values()], "keys": keys}


def ends(key: Key) -> str:
    """The words for the time at which a key expires."""
    return "never expires" if key.expires is None else f"expires {_minute(key.expires)} UTC"


def _tenant_fields(tenant: Entitlement) -> dict[str, Any]:
    plain = asdict(replace(tenant, budgets=()))
    budgets = [{"of": owner.label, **_bounds(owner.budget), **_terms(owner.budget)} for owner in tenant.budgets]
    return plain | {"classes": None if tenant.classes is None else sorted(tenant.classes), "budgets": budgets}


def _terms(budget: Budget) -> dict[str, Any]:
    return {
        "soft_ratio": budget.soft_ratio,
        "borrow": budget.borrows,
        "count_only": budget.counts_only,
        "time_zone": str(budget.calendar.zone),
    }


def _bounds(budget: Budget) -> dict[str, float]:
    concurrency = {} if budget.concurrency is None else {"concurrency": budget.concurrency}
    return {bound.name: limit for bound, limit in budget.limits.items()} | concurrency


def _tenant_row(tenant: Entitlement) -> list[object]:
    caps = [f"{name} {value}" for name, value in asdict(tenant.caps).items() if value is not None]
    classes = "every" if tenant.classes is None else sorted(tenant.classes)
    rates = [_number(tenant.requests_per_minute), _number(tenant.tokens_per_minute)]
    budgets = [
        f"{name.replace('_per_', '/')} {limit:.15g}{' together' if owner.members else ''}"
        f"{' (counted only)' if owner.budget.counts_only else ''}"
        for owner in tenant.budgets
        for name, limit in _bounds(owner.budget).items()
    ]
    own = [tenant.tenant, classes, tenant.default_class, _number(tenant.share)]
    return [*own, *rates, caps or None, budgets or None]


def _key_row(key: Key, now: datetime) -> list[object]:
    state = "expired" if _expired(key, now) else "in force"
    expires = "never" if key.expires is None else _minute(key.expires)
    return [key.id, key.tenant, _minute(key.created), expires, state, key.note or None]


def _expired(key: Key, now: datetime) -> bool:
    return now.timestamp() >= key.expires_s


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.15g}"


def _minute(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M}"
