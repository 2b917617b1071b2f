"""The tree of errors.

    HeadwayError
    ├── NoEngineError         vLLM is needed and not installed, or the engine did not start, or has died
    ├── UnknownClassError     the request names a class the preset does not have
    ├── TooWideError          the request asks for more sequences than the engine runs at once
    ├── UnknownPresetError    no preset of that name
    ├── UnusablePresetError   one that cannot be put in force: a policy it names could not be made
    ├── LimitCommandError       a limit that the engine cannot have, or that contradicts the preset in force
    ├── UnknownRungError      no such rung of the fallback ladder, or one that would change nothing
    ├── StaleRevisionError    the preset was changed meanwhile
    ├── UnknownRevisionError  an earlier revision that is not known, or not any more
    ├── NoTrialError          a trial is to be ended, and there is none
    ├── CommandConflictError    a command that is carried out already, or cannot be now
    ├── NoWarmupError         a warm-up is asked for, and nothing makes its requests
    ├── BatchFunctionError    the batch function gave no list, a wrong number of results, or was cancelled
    └── Refused               the request was refused: ``reason``, ``retry_after_s``, ``status``
        ├── Rejected          never served: no room, no chance to be in time, pushed out, draining, no engine
        ├── Expired           its time ran out while it waited
        └── TimedOut          its time ran out while it ran: no first token, no next one, or no end

Each refusal knows the HTTP status it becomes (RFC 9110; 429 from RFC 6585).
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

from headway_policies import Reason
from headway_policies.preset import Issue

#: For each reason: HTTP status, whether a client should try again, and the sentence for it.
TERMS: dict[Reason, tuple[HTTPStatus, bool, str]] = {
    Reason.QUEUE_FULL: (HTTPStatus.TOO_MANY_REQUESTS, True, "The queue is full."),
    Reason.CLASS_QUEUE_FULL: (HTTPStatus.TOO_MANY_REQUESTS, True, "The queue of this class is full."),
    Reason.NO_FREE_SEAT: (HTTPStatus.TOO_MANY_REQUESTS, True, "No seat is free, and the request would not wait."),
    Reason.DEADLINE_INFEASIBLE: (HTTPStatus.TOO_MANY_REQUESTS, True, "The expected wait is longer than the time-out."),
    Reason.DEADLINE_UNREACHABLE: (
        HTTPStatus.TOO_MANY_REQUESTS,
        True,
        "The request waited too long to be in time.",
    ),
    Reason.OBJECTIVE_INFEASIBLE: (
        HTTPStatus.TOO_MANY_REQUESTS,
        True,
        "Too many requests arrive to meet the objective of this class.",
    ),
    Reason.OBJECTIVE_UNREACHABLE: (
        HTTPStatus.TOO_MANY_REQUESTS,
        True,
        "The first token cannot be in time for the objective of this class: too many requests arrive.",
    ),
    Reason.EVICTED: (HTTPStatus.TOO_MANY_REQUESTS, True, "A more urgent request took this one's place in the queue."),
    Reason.QUEUE_TIMEOUT: (HTTPStatus.SERVICE_UNAVAILABLE, True, "No seat came free within the queue time-out."),
    Reason.FIRST_TOKEN_TIMEOUT: (HTTPStatus.GATEWAY_TIMEOUT, False, "No token came within the first-token time-out."),
    Reason.STALL_TIMEOUT: (HTTPStatus.GATEWAY_TIMEOUT, False, "The answer stalled for longer than its time-out."),
    Reason.TOTAL_TIMEOUT: (HTTPStatus.GATEWAY_TIMEOUT, False, "The request did not finish within its time-out."),
    Reason.DRAINING: (HTTPStatus.SERVICE_UNAVAILABLE, True, "The server is draining: it admits no requests."),
    Reason.NOT_READY: (HTTPStatus.SERVICE_UNAVAILABLE, True, "The server is not ready yet."),
    Reason.ENGINE_LOST: (HTTPStatus.SERVICE_UNAVAILABLE, True, "The engine is not running."),
    Reason.OUT_OF_MEMORY: (HTTPStatus.SERVICE_UNAVAILABLE, True, "The engine ran out of memory."),
    Reason.SHED: (HTTPStatus.TOO_MANY_REQUESTS, True, "Requests of this class are being shed."),
    Reason.POISON: (HTTPStatus.SERVICE_UNAVAILABLE, False, "The engine died twice while it ran this request."),
}


class HeadwayError(Exception):
    """The base class of all errors that Headway raises on purpose."""


class NoEngineError(HeadwayError):
    """vLLM is not installed, or its engine did not start, or it died before it answered."""


class UnknownClassError(HeadwayError, ValueError):
    """The request names a class the preset does not have."""


class TooWideError(HeadwayError, ValueError):
    """The request asks for more sequences than the engine runs at once."""


class UnknownPresetError(HeadwayError):
    """No preset of that name."""


class UnusablePresetError(HeadwayError):
    """A preset that cannot be put in force: a policy it names could not be made. ``issues`` names each of them."""

    def __init__(self, text: str, issues: Iterable[Issue] = ()) -> None:
        super().__init__(text)
        self.issues = tuple(issues)


class LimitCommandError(HeadwayError):
    """A limit that the engine cannot have, or that contradicts the preset in force."""


class UnknownRungError(HeadwayError):
    """No such rung of the fallback ladder, or one that would change nothing here."""


class StaleRevisionError(HeadwayError):
    """The preset in force is not the one the caller saw. ``current`` is its revision."""

    def __init__(self, current: int) -> None:
        super().__init__(f"the preset was switched meanwhile; its revision is now {current}")
        self.current = current


class UnknownRevisionError(HeadwayError):
    """No earlier revision of that number, or not any more."""


class NoTrialError(HeadwayError):
    """A trial is to be ended, and no preset is on trial."""


class CommandConflictError(HeadwayError):
    """A command that is carried out already, or cannot be carried out now."""


class NoWarmupError(HeadwayError):
    """A warm-up was requested, but nothing makes its requests."""


class BatchFunctionError(HeadwayError):
    """The batch function did not give one result for each item."""


class Refused(HeadwayError):
    """A request was refused. ``retry_after_s`` is whole seconds, 1 to 30."""

    def __init__(self, reason: Reason, retry_after_s: int) -> None:
        self.reason = reason
        self.retry_after_s = retry_after_s

    @property
    def status(self) -> HTTPStatus:
        """The HTTP status that it becomes."""
        return TERMS[self.reason][0]

    @property
    def retry(self) -> bool:
        """Whether a client should try again."""
        return TERMS[self.reason][1]

    def __str__(self) -> str:
        _, retry, sentence = TERMS[self.reason]
        advice = f" Try again in {self.retry_after_s} s." if retry else ""
        return f"{sentence}{advice} ({self.reason})"


class Rejected(Refused):
    """The request was never served."""


class Expired(Refused):
    """The request's time ran out while it waited."""


class TimedOut(Refused):
    """The request's time ran out while it ran."""


#: The class of a refusal where it is not Rejected.
_KINDS: dict[Reason, type[Refused]] = {
    Reason.QUEUE_TIMEOUT: Expired,
    Reason.FIRST_TOKEN_TIMEOUT: TimedOut,
    Reason.STALL_TIMEOUT: TimedOut,
    Reason.TOTAL_TIMEOUT: TimedOut,
}


def refusal(reason: Reason, retry_after_s: int) -> Refused:
    """The error for a reason."""
    return _KINDS.get(reason, Rejected)(reason, retry_after_s)
