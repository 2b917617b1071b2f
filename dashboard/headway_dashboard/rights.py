"""The rights of this page at the server, and the reasons for missing rights.

The server decides on every request; these rights only keep a page from offering what would be refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

import streamlit as st

from headway.api import AdminClient, AdminError, PresetList, SwitchedOffError, TokenRefusedError
from headway_dashboard.reach import READ_ONLY, is_open
from headway_dashboard.settings import Settings
from headway_dashboard.trusted_proxy import PROVEN, TrustedProxy

_HOW_TO_APPLY = (
    "To switch presets here, start the dashboard with the server's operator token in "
    "`HEADWAY_ADMIN_TOKEN` or `HEADWAY_ADMIN_TOKEN_FILE`."
)
_LOG_IN = "Everything is shown; log in to change anything."
_NO_USER = "To change anything, open this page through the proxy that logs visitors in: it has named no user."


@dataclass(frozen=True, slots=True)
class Rights:
    """Whether presets can be switched; if not, one sentence about why and what to set."""

    may_apply: bool
    sentence: str = ""
    may_log_in: bool = False


def ask(settings: Settings, client: AdminClient) -> tuple[PresetList | None, Rights]:
    """The server's presets, None where it does not show them, and what may be done with them."""
    if settings.token is None:
        problem = f"{settings.token_problem} " if settings.token_problem else ""
        return None, Rights(False, f"{problem}{_HOW_TO_APPLY}")
    try:
        presets = client.presets()
    except TokenRefusedError:
        return None, Rights(False, f"The server does not know this token. {_HOW_TO_APPLY}")
    except SwitchedOffError:
        where = "on the server and here"
        return None, Rights(
            False, f"The server's admin API is off: set `HEADWAY_ADMIN_TOKEN` {where}, and start both again."
        )
    except AdminError as error:
        return None, Rights(False, f"{error} The presets appear here as soon as it answers.")
    if settings.role != "operator":
        return presets, Rights(False, f"This dashboard has a viewer's token, which may only read. {_HOW_TO_APPLY}")
    return presets, Rights(True)


def must_log_in() -> bool:
    """Whether this visitor has not logged in where that is needed to change anything."""
    return _without_login() is not None


def logged_in(rights: Rights) -> Rights:
    """The rights of this visitor: with a login set up, changes need a login."""
    if not rights.may_apply or not must_log_in():
        return rights
    return _without_login() or Rights(False, _LOG_IN, may_log_in=True)


def _without_login() -> Rights | None:
    """The rights without a login, where a login is needed: it is set up, or the page is open to a network."""
    if st.user.get("is_logged_in") is True or proven_user():
        return None
    if st.user.get("is_logged_in") is False:
        return Rights(False, _LOG_IN, may_log_in=True)
    proxy = TrustedProxy.from_environment()
    if proxy.configured:
        return Rights(False, f"{proxy.problem or _NO_USER} Everything is shown.")
    return Rights(False, READ_ONLY) if is_open(st.get_option("server.address")) else None


def start_words(address: str, settings: Settings) -> str:
    """The warning at a start with a token that no visitor can use; empty otherwise."""
    in_secrets = st.secrets.load_if_toml_exists() and "auth" in st.secrets
    if settings.role != "operator" or in_secrets or TrustedProxy.from_environment().configured:
        return ""
    return READ_ONLY if is_open(address) else ""


def proven_user() -> str:
    """The user named by a trusted proxy; empty without one."""
    return unquote(str(st.context.headers.get(PROVEN) or ""))


def visitor_name() -> str:
    """The name under which a visitor has logged in, for the audit log; empty without a login."""
    if user := proven_user():
        return user
    if st.user.get("is_logged_in") is not True:
        return ""
    return str(st.user.get("email") or st.user.get("name") or "")
