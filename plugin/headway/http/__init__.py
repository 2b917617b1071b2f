"""The HTTP side: the admission middleware, bounds of requests, time-out headers, and the admin API.

It depends on ASGI and Starlette, and not on vLLM.
"""

from headway.http.admin import routes
from headway.http.auth import MIN_TOKEN_CHARS, Tokens
from headway.http.body import Budget
from headway.http.bounds import MAX_TARGET_BYTES, Bounds
from headway.http.log_privacy import hide_queries
from headway.http.middleware import AdmissionMiddleware
from headway.http.request_limits import RequestLimits

__all__ = [
    "MAX_TARGET_BYTES",
    "MIN_TOKEN_CHARS",
    "AdmissionMiddleware",
    "Bounds",
    "Budget",
    "RequestLimits",
    "Tokens",
    "hide_queries",
    "routes",
]
