"""The accounting of requests by tenant, on disk: what is recorded, where, and what is lost when that fails.

    store      the SQLite database: records, and their sums by minute, hour and day
    usage_log  the queue before it, which a thread empties twice a second
    reader     the answer to a query, with costs, as JSON or CSV
    budgets    what tenants and organisations may use, judged before a request enters

The arithmetic is ``headway_policies.usage``. A record is made in one place: ``headway.admission.listeners``.
"""

from headway.usage.budgets import ACTIONS, TenantBudgets, refusal_of
from headway.usage.reader import UnreadableError, UsageReader, csv_lines
from headway.usage.store import UsageStore
from headway.usage.usage_log import UsageLog

__all__ = [
    "ACTIONS",
    "TenantBudgets",
    "UnreadableError",
    "UsageLog",
    "UsageReader",
    "UsageStore",
    "csv_lines",
    "refusal_of",
]
