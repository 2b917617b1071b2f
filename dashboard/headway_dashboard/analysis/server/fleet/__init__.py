"""Several servers together: their table, which of them stands out, and their status as one."""
