"""The admin API under ``/headway/v1/`` and the two probes: its routes, tokens, rules, commands and error answers."""

from headway.http.admin.handlers import routes
from headway.http.admin.rules import AdminRules
from headway.http.admin.tokens import Tokens

__all__ = ["AdminRules", "Tokens", "routes"]
