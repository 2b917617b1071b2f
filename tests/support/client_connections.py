"""Connections of the tests' own HTTP clients to real servers."""

from __future__ import annotations

import gc
import warnings

import httpx

#: One for each request. A server closes a connection after five idle seconds, and on a machine that stood still for so
#: long the next request on it can meet the close, which no server can answer (RFC 9112, 9.3.1).
CONNECTIONS = httpx.Limits(max_connections=None, max_keepalive_connections=0)


def drop_connections() -> None:
    """Collect now, without a report, the connections that nobody closed.

    httpx may leave the connection of a request that was cancelled to the garbage collector, which then reports it in
    whichever test it happens to run in. The servers are processes of their own: none of their connections is among
    these.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
