"""The admin API under ``/headway/v1/`` and the two probes: its routes, tokens, commands and error answers."""

from headway.http.admin.handlers import routes
from headway.http.admin.tokens import Tokens

__all__ = ["Tokens", "routes"]
