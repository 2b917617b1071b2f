"""The rights of this page at the server, and what is missing.

The server decides on every request; this only keeps a page from offering what would be refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway.api import AdminClient, AdminError, PresetList, SwitchedOffError, TokenRefusedError
from headway_dashboard.settings import Settings

_HOW_TO_APPLY = (
    "To switch presets here, start the dashboard with the server's operator token in "
    "`HEADWAY_ADMIN_TOKEN` or `HEADWAY_ADMIN_TOKEN_FILE`."
)


@dataclass(frozen=True, slots=True)
class Rights:
    """Whether presets can be switched; if not, one sentence about why and what to set."""

    may_apply: bool
    sentence: str = ""


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
