"""Tenants: what each has used beside what it is entitled to, who was held back by whom, and how long budgets last."""
