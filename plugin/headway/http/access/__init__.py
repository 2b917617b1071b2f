"""Who may call which route: keys, routes and trusted proxies."""

from headway.http.access.identity import IDENTITY, Identity, identity_of

__all__ = ["IDENTITY", "Identity", "identity_of"]
