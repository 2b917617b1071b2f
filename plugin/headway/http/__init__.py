"""The HTTP side: bounds of requests, access to routes, the admission middleware, and the admin API.

    limits      the bytes and the time of any request, refused before it is read
    access      routes, keys and trusted proxies: the identity of a request
    inference   requests that may reach the engine: what they ask for, their refusal, their response
    admin       the admin API and the two probes

It depends on ASGI and Starlette, and not on vLLM.
"""

from headway.http.admin import Tokens, routes
from headway.http.inference import AdmissionMiddleware, RequestRules
from headway.http.limits import MAX_TARGET_BYTES, Bounds, Budget, RequestLimits
from headway.http.log_privacy import hide_secrets

__all__ = [
    "MAX_TARGET_BYTES",
    "AdmissionMiddleware",
    "Bounds",
    "Budget",
    "RequestLimits",
    "RequestRules",
    "Tokens",
    "hide_secrets",
    "routes",
]
