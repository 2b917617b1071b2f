"""The operators' commands to a server, in words: a pause, a drain, another limit; and what else stops dispatch.

The reason of an operator stands in these words as it was written: a page shows them as plain text.
"""

from __future__ import annotations

from headway_dashboard.analysis.server.status import Status
from headway_dashboard.analysis.units import counted, duration

OPERATOR = "operator"
DRAINING = "draining"
#: The causes that end by themselves, as the server names them.
_CAUSES = {
    "recycle": "a recycle",
    "warmup": "the warm-up",
    "engine_paused": "the paused engine",
    "engine_asleep": "the sleeping engine",
    "no_instance": "the lack of a healthy instance",
}


def operator_stop(status: Status) -> str:
    """Whether an operator has stopped dispatch: "paused", "draining", or empty."""
    return status.admission if OPERATOR in status.blocks else ""


def by_and_since(status: Status) -> str:
    """The author, the age and the reason of the command that blocks dispatch; empty where they are not known."""
    stop = status.stopped
    if stop is None:
        return ""
    age = f", {duration(round(stop.for_s))} ago" if stop.for_s >= 1 else ""
    return f"by {stop.actor}{age}" + (f": {stop.reason}" if stop.reason else "")


def end_words(status: Status) -> str:
    """The end of the command that blocks dispatch, as a sentence; empty where a resume ends it."""
    stop = status.stopped
    if stop is None or stop.left_s is None:
        return ""
    return f"The command ends by itself in {duration(round(stop.left_s))}."


def operator_limit_words(status: Status) -> str:
    """The limit by command in place of the preset's, by whom, why and until when; empty where none is."""
    limit = status.operator_limit
    if limit is None:
        return ""
    end = "until the next switch" if limit.left_s is None else f"for another {duration(round(limit.left_s))}"
    by = f" by {limit.actor}" if limit.actor else ""
    why = f" ({limit.reason})" if limit.reason else ""
    return f"The limit is set{by}{why}: {counted(limit.seats, 'seat', 'seats')} in place of the preset's, {end}."


def admission_words(status: Status) -> str:
    """The fate of requests now, and why; empty where it is not known."""
    if not status.known:
        return ""
    if stop := operator_stop(status):
        return f"{stop.capitalize()} {by_and_since(status) or 'by an operator'}. {end_words(status)}".rstrip()
    if status.admission == DRAINING:
        return "The server closes: new requests are refused."
    if status.admission == "open":
        return "Requests are dispatched."
    causes = ", ".join(_CAUSES.get(block, block.replace("_", " ")) for block in status.blocks)
    return f"Dispatch is blocked by {causes}, and resumes by itself." if causes else "Dispatch is blocked."
