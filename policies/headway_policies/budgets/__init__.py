"""Budgets: what tenants and their organisations may use in an hour, a day or a month."""

from headway_policies.budgets.book import Action, BudgetBook, BudgetState, Finding, Hold, budgets_of
from headway_policies.budgets.budget import BOUNDS, Bound, Budget, Owned, Unit
from headway_policies.budgets.calendar import Calendar, Span, Stretch

__all__ = [
    "BOUNDS",
    "Action",
    "Bound",
    "Budget",
    "BudgetBook",
    "BudgetState",
    "Calendar",
    "Finding",
    "Hold",
    "Owned",
    "Span",
    "Stretch",
    "Unit",
    "budgets_of",
]
