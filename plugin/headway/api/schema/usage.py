"""The accounting: what the requests of each group have used."""

from __future__ import annotations

from pydantic import Field

from headway.api.schema.base import Answer


class UsageRow(Answer):
    """The figures of one group, in a period that begins at ``start`` or in the whole range."""

    start: str | None = None
    group: dict[str, str] = Field(description="The values of the fields by which rows are grouped.")
    requests: int
    refused: int
    prompt_tokens: int = Field(description="Counted by the engine, cached tokens included.")
    cached_tokens: int = Field(description="Prompt tokens that the engine had in its prefix cache.")
    output_tokens: int
    seat_s: float = Field(description="Time on seats, summed over sequences.")
    kv_token_s: float = Field(description="Tokens in the KV cache times seconds, approximately.")
    queue_s: float = Field(description="Time without a seat.")
    cost: float | None = Field(default=None, description="Null without prices, or where a part has no price.")


class BudgetRow(Answer):
    """Use of a bound of a budget. ``owner`` names its tenant or organisation, with the word before the name."""

    owner: str
    bound: str
    limit: float
    used: float
    held: float = Field(description="Reserved for requests in progress: one each, or the tokens estimated for them.")
    resets: str | None = Field(description="When the count restarts from 0; null for concurrency.")


class UsageReport(Answer):
    """The use of the requests that ended from ``since`` to ``until``.

    ``kept_since``: the begin of the oldest period of this kind that is kept. ``waiting`` requests are not in the
    database yet, and ``lost`` ones will never be.
    """

    since: str
    until: str
    kept_since: str | None
    by: list[str]
    rows: list[UsageRow]
    total: UsageRow
    currency: str | None = None
    waiting: int
    lost: int
    database: str | None = Field(default=None, description="The same for servers that share a database.")
    budgets: list[BudgetRow] = Field(default=[], description="Of all tenants, or of the one asked for.")
    shares: dict[str, float] = Field(
        default={}, description="By tenant of the rows, its share by the keys file; any other tenant has 1."
    )
    organisations: dict[str, str] = Field(
        default={}, description="By tenant of the rows, its organisation, where that has a budget."
    )
