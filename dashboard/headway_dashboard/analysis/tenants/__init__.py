"""Tenants: what each has used beside its entitlement, which was held back by which, and how long budgets last."""
