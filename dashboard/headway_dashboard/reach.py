"""The reach of the page: the machine it runs on alone, or a network.

A page that is open to a network without a login must not be able to change the server.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import ip_address

from headway_dashboard.trusted_proxy import HEADER, PROXIES

#: Says that only this machine reaches the page although it listens on a network address, as in a container with a port
#: published on 127.0.0.1.
LOOPBACK_ONLY = "HEADWAY_DASHBOARD_LOOPBACK_ONLY"

READ_ONLY = (
    "This dashboard listens on a network address without a login, so it is read-only. To change the server, let it "
    "listen on 127.0.0.1 (`--host`), or set up a login: `[auth]` in Streamlit's `secrets.toml`, or a proxy with "
    f"`{HEADER}` and `{PROXIES}`. Where the port of a container is published for this machine alone, set "
    f"`{LOOPBACK_ONLY}=1`."
)


def is_open(address: str | None, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether other machines can reach a page that listens on this address; None is every address."""
    if environment.get(LOOPBACK_ONLY, "").strip().lower() in ("1", "true", "yes"):
        return False
    host = (address or "").strip("[]")
    if host == "localhost":
        return False
    try:
        return not ip_address(host).is_loopback
    except ValueError:
        return True
