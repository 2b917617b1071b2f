"""The accounting of requests by tenant: records, their sums by time, the figures of a range, and prices.

record       what one request has used
roll_up      the sums of records by minute, hour and day
query        which sums a reader asks for
report       the rows of an answer, with their costs
prices       prices by class and model
top_tenants  the tenants that have a label of their own in the metrics
fair_shares  what each would have of the whole by max-min fairness, and Jain's index
"""

from headway_policies.usage.fair_shares import jain, max_min
from headway_policies.usage.prices import Price, Prices, PricesError
from headway_policies.usage.query import DIMENSIONS, PERIODS, QueryError, UsageQuery, read_query
from headway_policies.usage.record import SERVER, Figures, Group, UsageRecord, kv_token_s
from headway_policies.usage.report import Priced, Row, costed
from headway_policies.usage.roll_up import OTHER, Period, bounded, folded, roll_up, total
from headway_policies.usage.top_tenants import TenantCounts, TopTenants

__all__ = [
    "DIMENSIONS",
    "OTHER",
    "PERIODS",
    "SERVER",
    "Figures",
    "Group",
    "Period",
    "Price",
    "Priced",
    "Prices",
    "PricesError",
    "QueryError",
    "Row",
    "TenantCounts",
    "TopTenants",
    "UsageQuery",
    "UsageRecord",
    "bounded",
    "costed",
    "folded",
    "jain",
    "kv_token_s",
    "max_min",
    "read_query",
    "roll_up",
    "total",
]
