"""The errors of the admin API's client, as a tree.

    AdminError
     ├── BadUrlError            the URL is not that of a server; no request was sent
     ├── UnreachableError       no connection
     │    ├── NoAnswerInTimeError   the answer did not come, or was not complete, in time
     │    ├── BrokenConnectionError the connection ended before the answer
     │    └── TlsError              the TLS connection failed
     ├── NotHeadwayError        an answer that is not one of the admin API
     │    └── TooLargeError         an answer that is larger than its bound
     └── RefusedError           the server answered with an error status
          ├── TokenRefusedError     401: no token, or a wrong one
          ├── RoleError             403: the token may only read
          ├── SwitchedOffError      404: the server was started without a token
          ├── StaleError            412: the preset was switched meanwhile
          ├── InvalidCommandError     422: the server does not accept the command
          └── TooManyError          429: too many wrong tokens from this address

The text of each is one sentence for a person.
"""

from __future__ import annotations


class AdminError(Exception):
    """A request to the admin API failed. ``url`` is that of the server."""

    def __init__(self, text: str, url: str = "") -> None:
        super().__init__(text)
        self.url = url


class BadUrlError(AdminError):
    """The URL is not that of a server."""

    def __init__(self, url: str) -> None:
        super().__init__("This is not the URL of a server, such as http://127.0.0.1:8000.", url)


class UnreachableError(AdminError):
    """No connection to the server."""


class NoAnswerInTimeError(UnreachableError):
    """The answer did not come, or was not complete, in time."""


class BrokenConnectionError(UnreachableError):
    """The connection ended before the answer: whether the request was carried out is not known."""


class TlsError(UnreachableError):
    """The TLS connection failed."""


class NotHeadwayError(AdminError):
    """An answer that is not one of the admin API."""


class TooLargeError(NotHeadwayError):
    """An answer that is larger than its bound."""


class RefusedError(AdminError):
    """The server answered with an error status.

    ``is_problem``: the answer is a problem document, and so one of the admin API; the text is its detail.
    """

    def __init__(self, text: str, url: str = "", *, status: int = 0, is_problem: bool = False) -> None:
        super().__init__(text, url)
        self.status = status
        self.is_problem = is_problem


class TokenRefusedError(RefusedError):
    """No token, or a wrong one."""


class RoleError(RefusedError):
    """The token may only read."""


class SwitchedOffError(RefusedError):
    """The admin API is off."""


class StaleError(RefusedError):
    """The preset was switched meanwhile."""


class InvalidCommandError(RefusedError):
    """The server does not accept the command."""


class TooManyError(RefusedError):
    """Too many wrong tokens from this address; the text says when to try again."""


#: The error of each status; all others are a RefusedError.
BY_STATUS: dict[int, type[RefusedError]] = {
    401: TokenRefusedError,
    403: RoleError,
    404: SwitchedOffError,
    412: StaleError,
    422: InvalidCommandError,
    429: TooManyError,
}
