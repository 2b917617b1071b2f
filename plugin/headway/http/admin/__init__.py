"""The admin API under ``/headway/v1/`` and the two probes: its routes, tokens, rules, commands and error answers."""

from headway.http.admin.handlers import routes
from headway.http.admin.rules import AdminRules
from headway.http.admin.tokens import MIN_TOKEN_CHARS, Tokens

__all__ = ["MIN_TOKEN_CHARS", "AdminRules", "Tokens", "routes"]
