"""Tests of the table of errors against the codes that the code uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from http import HTTPStatus

from running_server import ROOT

from headway.api_errors import ERRORS, TYPES, Advice, types_of
from headway.errors import TERMS
from headway_policies import Reason

SOURCES = [
    path
    for path in (ROOT / "plugin" / "headway").rglob("*.py")
    if path.name != "api_errors.py" and "admin" not in path.parts
]
#: The position of status and code among the arguments of what makes an error.
MAKERS = {"BadRequest": (0, 2), "AccessRefused": (1, 3), "error_body": (1, 3), "error_event": (1, 3)}


def texts() -> set[str]:
    """Every string constant of the plugin that could be a code."""
    nodes = (node for path in SOURCES for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def made() -> Iterator[tuple[str, str]]:
    """(code, status) of every error that is made with both written out."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAKERS):
                continue
            at_status, at_code = MAKERS[node.func.id]
            status, code = (node.args[at] if len(node.args) > at else None for at in (at_status, at_code))
            if isinstance(status, ast.Attribute) and isinstance(code, ast.Constant):
                yield str(code.value), status.attr


def test_every_error_that_is_made_is_in_the_table() -> None:
    """With the status that the table says."""
    found = set(made())
    assert len(found) >= 15
    assert {(code, ERRORS[code].status.name) for code, _ in found} == {
        (code, HTTPStatus[status].name) for code, status in found
    }


def test_every_code_of_the_table_is_one_that_is_used() -> None:
    """A row of an error that nothing makes any more is found."""
    assert ERRORS.keys() - set(Reason) <= texts()


def test_every_reason_is_in_the_table_with_its_terms() -> None:
    """A refusal's reason is its code."""
    for reason, (status, retry, _) in TERMS.items():
        assert (ERRORS[reason].status, ERRORS[reason].advice is Advice.LATER) == (status, retry)
    assert TERMS.keys() == set(Reason)


def test_an_unlisted_status_has_the_words_of_its_hundred() -> None:
    """Which hold for every status that the table of types leaves out."""
    assert types_of(HTTPStatus.METHOD_NOT_ALLOWED) == types_of(HTTPStatus.BAD_REQUEST)
    assert types_of(HTTPStatus.INTERNAL_SERVER_ERROR).openai == types_of(HTTPStatus.NOT_IMPLEMENTED).openai
    assert all(types_of(status) is words for status, words in TYPES.items())
