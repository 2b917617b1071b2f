"""The reach of the page: the machine it runs on alone, or a network.

A page that anybody on a network can open must not be able to change the server.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import ip_address

from headway_dashboard.trusted_proxy import HEADER, PROXIES

#: Says that only this machine reaches the page although it listens for others, as in a container whose port is
#: published on 127.0.0.1.
LOOPBACK_ONLY = "HEADWAY_DASHBOARD_LOOPBACK_ONLY"

READ_ONLY = (
    "This dashboard listens for a network and asks nobody for a login, so it only shows. To change the server, let it "
    "listen on 127.0.0.1 (`--host`), or set up a login: `[auth]` in Streamlit's `secrets.toml`, or a proxy with "
    f"`{HEADER}` and `{PROXIES}`. Where the port of a container is published for this machine alone, set "
    f"`{LOOPBACK_ONLY}=1`."
)


def is_open(address: str | None, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether others than this machine can reach a page that listens on this address; None is every address."""
    if environment.get(LOOPBACK_ONLY, "").strip().lower() in ("1", "true", "yes"):
        return False
    host = (address or "").strip("[]")
    if host == "localhost":
        return False
    try:
        return not ip_address(host).is_loopback
    except ValueError:
        return True
