"""Failed requests to the admin API: the command's exit code, and one line with the next step for the user."""

from __future__ import annotations

import pytest

from headway import api
from headway.api.errors import BY_STATUS
from headway_tools.console import Exit, as_cli_error

URL = "http://h:1"


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (api.BadUrlError(URL), Exit.USAGE, "not a URL of a server, such as http://127.0.0.1:8000: 'http://h:1'"),
        (api.UnreachableError("no", URL), Exit.UNREACHABLE, "no server answers at http://h:1"),
        (api.NoAnswerInTimeError("no", URL), Exit.UNREACHABLE, "does not answer in time"),
        (api.BrokenConnectionError("no", URL), Exit.UNREACHABLE, "may have been carried out all the same"),
        (api.TlsError("no", URL), Exit.UNREACHABLE, "check https and the certificate"),
        (api.NotHeadwayError("no", URL), Exit.UNREACHABLE, "not Headway's admin API"),
        (api.TooLargeError("It is too large.", URL), Exit.UNREACHABLE, "It is too large. Is it a Headway server?"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_failure_has_its_end(error: api.AdminError, code: Exit, words: str) -> None:
    """With the URL, since a command may have taken it from the environment."""
    ended = as_cli_error(error)
    assert ended.code == code
    assert words in str(ended)


@pytest.mark.parametrize(
    ("status", "code"), [(401, 4), (403, 4), (404, 4), (409, 1), (412, 1), (422, 2), (501, 1), (500, 1)]
)
def test_a_problem_is_shown_in_the_servers_words(status: int, code: int) -> None:
    """The status decides the exit code, the detail is the line."""
    kind = BY_STATUS.get(status, api.RefusedError)
    ended = as_cli_error(kind("As the server says.", URL, status=status, is_problem=True))
    assert (ended.code, str(ended)) == (code, "As the server says.")


@pytest.mark.parametrize(("status", "code"), [(302, 3), (401, 3), (404, 3), (422, 3), (500, 1), (503, 1)])
def test_an_error_that_is_no_problem_document_is_not_headways(status: int, code: int) -> None:
    """Another server, or a proxy; a status of 500 and more is a defect of the server."""
    kind = BY_STATUS.get(status, api.RefusedError)
    ended = as_cli_error(kind("<html>", URL, status=status))
    assert ended.code == code
    assert str(ended).startswith(f"http://h:1 answered {status}")
