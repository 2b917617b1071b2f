"""The operator's own checks through the middleware, as the environment names them."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest
from engines import assert_no_residue, outcomes
from generating_site import GeneratingSite
from small_presets import small_preset

from headway.http.inference.request_rules import RequestRules


@pytest.fixture(autouse=True)
def _checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the operator's whose function refuses everything."""
    module = ModuleType("operators_checks")
    module.__dict__["good"] = lambda *_: "refused"
    monkeypatch.setitem(sys.modules, module.__name__, module)


class CheckedSite(GeneratingSite):
    """Routes whose requests and results go through the operator's functions; in real time, as these run in threads."""

    def __init__(self, **functions: str) -> None:
        variables = {f"HEADWAY_{name.upper()}": f"operators_checks:{function}" for name, function in functions.items()}
        variables["HEADWAY_VALIDATOR_TIMEOUT_S"] = "60"
        super().__init__(small_preset(1), step_s=0.001, rules=RequestRules.from_environment(variables))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_that_the_validator_refuses_never_reaches_the_engine(stream: bool) -> None:
    """400, and no seat was asked for; without the variable it is served."""
    site = CheckedSite(validator="good")
    status, _, content = await site.post({"stream": stream})
    assert (status, json.loads(content)["error"]["code"]) == (400, "invalid_request")
    assert outcomes(site.control) == {}
    assert (await CheckedSite().post({"stream": stream}))[0] == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_a_result_that_is_refused_has_failed(stream: bool) -> None:
    """502 in place of an answer, an error event at the end of a stream; both count as failed, and the seat is free."""
    site = CheckedSite(check_result="good")
    status, _, content = await site.post({"stream": stream})
    assert (status, content.count(b"result_invalid")) == (200 if stream else 502, 1)
    assert content.startswith(b"data: 1" if stream else b"{")
    await assert_no_residue(site.control)
    assert outcomes(site.control) == {"failed": 1}
