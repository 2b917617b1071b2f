"""The answer to the last press of a button, kept for where that button is, and errors with what to do next."""

from __future__ import annotations

import streamlit as st

from headway.api import (
    AdminError,
    BrokenConnectionError,
    InvalidCommandError,
    NoAnswerInTimeError,
    RoleError,
    StaleError,
)
from headway_dashboard.components.banner import plain

VIEWER_ONLY = "viewer_only"
#: The answer to the button of the severity band.
TRIED = "try_result"


def say(key: str) -> None:
    """Show the answer that is kept under a key."""
    kind, text = st.session_state.get(key, ("", ""))
    if kind:
        {"success": st.success, "warning": st.warning, "error": st.error}[kind](plain(text))


def failed(key: str, error: AdminError, *, done: str = "changed") -> None:
    """Keep what a refused command says, and what to do next; a token that may only read is remembered."""
    state = st.session_state
    if isinstance(error, RoleError):
        state[VIEWER_ONLY] = f"This token may only read ({error}). An operator's token is needed."
        state[key] = ("error", f"Nothing was {done}. This token may only read: ask an operator.")
    elif isinstance(error, StaleError):
        text = (
            f"The preset was changed meanwhile. Nothing was {done}; this is the new state. Look at it, and press again."
        )
        state[key] = ("warning", text)
    elif isinstance(error, InvalidCommandError):
        state[key] = ("error", f"Nothing was {done}. {error} Correct it, and press again.")
    elif isinstance(error, NoAnswerInTimeError | BrokenConnectionError):
        state[key] = ("error", f"{error} It may have acted all the same: look at the audit log before you press again.")
    else:
        state[key] = ("error", f"Nothing was {done}. {error}")
