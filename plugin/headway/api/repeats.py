"""Repetition of an order, under its first name, whose answer did not come or came too early.

An order whose connection ended before the answer is sent again at once. One that was refused with 429 or 409 and
Retry-After is sent again then, where that is soon: so many orders are allowed a minute, or the first one is under way.
"""

from __future__ import annotations

import secrets
from http import HTTPStatus

import requests

#: How often one order is sent, at most.
MOST_TRIES = 4
#: The longest time that is waited for another try; a server that wants more has refused the order.
MAX_WAIT_S = 5.0

_AGAIN = {HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS}


def new_key() -> str:
    """A name for one order that no other has."""
    return secrets.token_hex(16)


def wait_s(response: requests.Response) -> float | None:
    """After how long the same order may be sent again; None where this answer is the last word."""
    text = response.headers.get("Retry-After", "")
    if response.status_code not in _AGAIN or not (text.isascii() and text.isdecimal() and len(text) <= 2):
        return None
    seconds = float(text)
    return seconds if seconds <= MAX_WAIT_S else None
