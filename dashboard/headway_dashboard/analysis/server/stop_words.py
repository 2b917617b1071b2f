"""What stops the dispatch of a server, in words: an operator's pause or drain, and other causes."""

from __future__ import annotations

from headway_dashboard.analysis.server.status import Status
from headway_dashboard.analysis.units import duration

OPERATOR = "operator"
DRAINING = "draining"
#: The causes that end by themselves, as the server names them.
_CAUSES = {
    "recycle": "a recycle",
    "warmup": "the warm-up",
    "engine_paused": "the engine, which is paused",
    "engine_asleep": "the engine, which is asleep",
    "no_instance": "the instances, none of which is healthy",
}


def ordered_stop(status: Status) -> str:
    """Whether an operator has stopped dispatch: "paused", "draining", or empty."""
    return status.admission if OPERATOR in status.holds else ""


def by_and_since(status: Status) -> str:
    """The author, the age and the reason of the order that stops dispatch; empty where they are not known."""
    stop = status.stopped
    if stop is None:
        return ""
    age = f", {duration(round(stop.for_s))} ago" if stop.for_s >= 1 else ""
    return f"by {stop.actor}{age}" + (f": {stop.reason}" if stop.reason else "")


def admission_words(status: Status) -> str:
    """What happens to requests now, and why; empty where it is not known."""
    if not status.known:
        return ""
    if stop := ordered_stop(status):
        return f"{stop.capitalize()} {by_and_since(status) or 'by an operator'}."
    if status.admission == DRAINING:
        return "The server closes: new requests are refused."
    if status.admission == "open":
        return "Requests are dispatched."
    held = ", ".join(_CAUSES.get(one, one.replace("_", " ")) for one in status.holds)
    return f"Dispatch is held by {held}; it goes on by itself." if held else "Dispatch is held."
