"""The tables of a keys file, their fields and the form of each.

time_zone             of the hours, days and months of budgets
[tenants.NAME]        classes, default_class, share, requests_per_minute, tokens_per_minute, organisation; tables caps
                      and budget
[organisations.NAME]  a table budget, of all its tenants together
[[keys]]              id, sha256, tenant, created; expires and note where wanted
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any, Final, get_type_hints
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, create_model

from headway.keys.key_ring import is_key
from headway_policies.budgets import BOUNDS
from headway_policies.entitlement import RequestCaps

MAX_KEYS = 10_000
_MAX_CLASSES = 64
_MAX_NOTE_CHARS = 200

_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_ID: Final = r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,63}$"

_A_NAME = "must be 1 to 64 letters, digits or . _ -, the first a letter or a digit"
_A_RATE = "must be a number of at least 1"
_A_TIME = "must be an ISO time with a zone"
#: The rule of each field, and the remedy where it is broken. A tenant's name has the field "".
FORMS: dict[str, tuple[str, str]] = {
    "tenants": ("must be tables", "write [tenants.NAME] above the fields of each tenant"),
    "": (f"the name of a tenant {_A_NAME}", "give the tenant another name, in its keys too"),
    "classes": (
        f"must be a list of at most {_MAX_CLASSES} names of classes",
        'write classes = ["normal", "batch"], or leave it out for every class',
    ),
    "default_class": (
        "must be the name of a class that the tenant may use",
        "name one of its classes, or leave it out for the default class of the preset",
    ),
    "share": ("must be a number from 0.01 to 100", "leave it out for 1, as much as any other tenant"),
    "requests_per_minute": (_A_RATE, "leave it out for no bound"),
    "tokens_per_minute": (_A_RATE, "leave it out for no bound"),
    "caps": (
        f"must be a table of caps, none below 0: {', '.join(field.name for field in fields(RequestCaps))}",
        "write caps.NAME = NUMBER, or leave it out for no cap",
    ),
    "organisation": (
        "must be the name of an organisation of this file",
        "add its table [organisations.NAME], or correct the name",
    ),
    "budget": (
        "must be a table: requests, tokens and seat_seconds _per_hour, _per_day and _per_month, numbers of at least 1; "
        "concurrency, at least 1; soft_ratio, above 0 and at most 1; borrow and count_only, true or false",
        "write budget.tokens_per_day = NUMBER, or leave it out for no bound",
    ),
    "organisations": ("must be tables", "write [organisations.NAME] above the budget of each organisation"),
    "time_zone": ("must be the name of a time zone", 'write time_zone = "Europe/Berlin", or leave it out for UTC'),
    "keys": (f"must be at most {MAX_KEYS} tables", "write [[keys]] above the fields of each key"),
    "id": (
        "must be 1 to 64 letters, digits or . _ ~ -, the first a letter or a digit",
        "give the key a name by which you would know it in a log; never the key itself",
    ),
    "sha256": (
        "must be the 64 hexadecimal digits of the key's SHA-256, never the key itself",
        "make a key with: headway keys add --tenant NAME",
    ),
    "tenant": ("must be the name of a tenant of this file", "add its table [tenants.NAME], or correct the name"),
    "created": (_A_TIME, "write it as 2026-01-31T12:00:00Z"),
    "expires": (f"{_A_TIME}, not before created", "write it as 2026-01-31T12:00:00Z, or leave it out for never"),
    "note": (f"must be a text of at most {_MAX_NOTE_CHARS} characters in one line", "shorten it, or leave it out"),
}


def read_time(value: object) -> datetime:
    """A time of TOML, or an ISO text; both with a zone. Raises ValueError."""
    time = datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(time, datetime) or time.utcoffset() is None:
        raise ValueError("no time with a zone")
    return time


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("not in one line")
    return text


def _no_key(name: str) -> str:
    if is_key(name):
        raise ValueError("a key")
    return name


def _not_below_zero(value: Any) -> Any:
    if isinstance(value, int | float) and value < 0:
        raise ValueError("below 0")
    return value


Name = Annotated[str, Field(pattern=_NAME), AfterValidator(_no_key)]
Time = Annotated[datetime, BeforeValidator(read_time)]
Rate = Annotated[float, Field(ge=1, le=1e12)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _caps_table() -> type[_Table]:
    """The table of the caps, with the fields of RequestCaps, whichever they are."""
    types = get_type_hints(RequestCaps)
    columns: dict[str, Any] = {
        field.name: (
            Annotated[types[field.name], AfterValidator(_not_below_zero)],
            Field(default_factory=field.default_factory) if field.default_factory is not MISSING else field.default,
        )
        for field in fields(RequestCaps)
    }
    return create_model("CapsTable", __base__=_Table, **columns)


CapsTable = _caps_table()


def _budget_table() -> type[_Table]:
    """The table of a budget: its bounds, and what follows where they are reached."""
    columns: dict[str, Any] = {bound.name: (Rate | None, None) for bound in BOUNDS}
    return create_model(
        "BudgetTable",
        __base__=_Table,
        **columns,
        concurrency=(Annotated[int, Field(ge=1, le=10**9)] | None, None),
        soft_ratio=(Annotated[float, Field(gt=0, le=1)] | None, None),
        borrow=(bool, False),
        count_only=(bool, False),
    )


BudgetTable = _budget_table()
BUDGET_FIELDS: Final = tuple(BudgetTable.model_fields)


def _zone(name: object) -> tzinfo:
    """A time zone of the system's or Python's own data. Raises ValueError."""
    if not isinstance(name, str):
        raise ValueError("no name")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError("not known") from error


class TenantTable(_Table):
    """[tenants.NAME]: the fields of an Entitlement."""

    classes: Annotated[list[Name], Field(max_length=_MAX_CLASSES)] | None = None
    default_class: Name | None = None
    share: float = Field(default=1.0, ge=0.01, le=100)
    requests_per_minute: Rate | None = None
    tokens_per_minute: Rate | None = None
    organisation: Name | None = None
    caps: CapsTable = Field(default_factory=CapsTable)  # type: ignore[valid-type]  # made above
    budget: BudgetTable = Field(default_factory=BudgetTable)  # type: ignore[valid-type]  # made above


class OrganisationTable(_Table):
    """[organisations.NAME]: what all its tenants may use together."""

    budget: BudgetTable = Field(default_factory=BudgetTable)  # type: ignore[valid-type]  # made above


class KeyTable(_Table):
    """[[keys]]: one key."""

    id: Annotated[str, Field(pattern=_ID), AfterValidator(_no_key)]
    sha256: Annotated[str, Field(pattern=r"^[0-9A-Fa-f]{64}$")]
    tenant: Name
    created: Time
    expires: Time | None = None
    note: Annotated[str, Field(max_length=_MAX_NOTE_CHARS), AfterValidator(_one_line)] = ""


class KeysTable(_Table):
    """The whole file."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    time_zone: Annotated[tzinfo, BeforeValidator(_zone)] = UTC
    organisations: dict[Name, OrganisationTable] = {}
    tenants: dict[Name, TenantTable] = {}
    keys: Annotated[list[KeyTable], Field(max_length=MAX_KEYS)] = []
