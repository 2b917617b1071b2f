"""``headway recycle`` against a stand-in of the admin API."""

from __future__ import annotations

import json

import pytest
from admin_stand_in import Stub

from headway_tools.cli import main


def test_it_says_that_it_has_begun(operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """And for which operator; reason and actor are sent along."""
    assert main(["recycle", "--reason", "old", "--actor", "ann"]) == 0
    assert "replaced when 5 running requests have finished" in capsys.readouterr().out
    method, path, _, body = operator.seen[-1]
    assert (method, path, body) == ("POST", "/headway/v1/recycle", {"reason": "old", "actor": "ann"})
    assert main(["recycle", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"accepted": True, "seats_taken": 5}


@pytest.mark.parametrize("status", [409, 501])
def test_a_server_that_cannot_says_why(status: int, operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, and the server's own sentence."""
    operator.refuse_put = (status, "this server cannot replace its engine; restart it.")
    assert main(["recycle"]) == 1
    assert "restart it" in capsys.readouterr().err


def test_without_a_token_it_is_not_asked(stub: Stub) -> None:
    """Exit code 4."""
    assert main(["recycle", "--url", stub.url]) == 4
    assert stub.seen == []
