"""Access to the routes: which are open, what the others need, and how guesses are bounded.

    route_guard   the ASGI middleware
    access        its decisions: the identity of a request, or a refusal
    route_table   the routes in force, and how a path is read
    identity      the sender of a request, anonymous where no key is asked for
    api_keys, proxies, lockout   the ways to an identity, and the bound on wrong keys

It depends on ASGI only, and not on vLLM.
"""

from headway.http.access.access import Access, AccessRefused
from headway.http.access.api_keys import ApiKeys
from headway.http.access.identity import identity_of
from headway.http.access.proxies import PEER, TrustedProxies
from headway.http.access.route_guard import RouteGuard
from headway.http.access.route_table import RouteTable

__all__ = [
    "PEER",
    "Access",
    "AccessRefused",
    "ApiKeys",
    "RouteGuard",
    "RouteTable",
    "TrustedProxies",
    "identity_of",
]
