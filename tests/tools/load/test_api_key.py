"""The API key of a load goes to no server but those that it is meant for."""

from __future__ import annotations

import pytest

from headway_tools.load.api_key import key_for

KEY = {"OPENAI_API_KEY": "canary-of-a-key"}
BASE = KEY | {"OPENAI_BASE_URL": "https://models.example.org/v1"}


@pytest.mark.parametrize(
    ("url", "environment"),
    [
        ("http://127.0.0.1:8000", KEY),
        ("http://localhost:8000/v1", KEY),
        ("http://[::1]:8000", KEY),
        ("https://models.example.org", BASE),
        ("https://MODELS.example.org:443/v1/", BASE),
    ],
)
def test_a_key_goes_to_this_machine_and_to_the_server_beside_which_it_is_named(
    url: str, environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the path of the URL; nothing is said of it."""
    assert key_for(url, environment, send=False) == "canary-of-a-key"
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("url", "environment"),
    [
        ("http://192.0.2.7:8000", KEY),
        ("http://127.0.0.1.example.org", KEY),
        ("http://models.example.org", BASE),
        ("https://models.example.org:8443", BASE),
        ("https://models.example.org.evil.example", BASE),
        ("https://evil.example/?models.example.org", BASE),
        ("http://[::1", KEY),
        ("nonsense", KEY | {"OPENAI_BASE_URL": "nonsense"}),
        ("http://192.0.2.7:8000", {"VLLM_API_KEY": "canary-of-a-key"}),
    ],
)
def test_another_server_gets_it_only_where_the_user_says_so(
    url: str, environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """One line names the variable and the remedy, and shows nothing of the key."""
    assert key_for(url, environment, send=False) is None
    said = capsys.readouterr().err
    assert said.startswith(f"headway: {next(iter(environment))} is not sent to {url}: ")
    assert said.endswith("; add --send-key to send it\n")
    assert "canary" not in said
    assert key_for(url, environment, send=True) == "canary-of-a-key"


@pytest.mark.parametrize("environment", [{}, {"OPENAI_API_KEY": ""}])
def test_without_a_key_there_is_nothing_to_say(environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """An empty variable is none."""
    assert key_for("http://192.0.2.7:8000", environment, send=True) is None
    assert capsys.readouterr().err == ""


def test_the_key_of_vllm_comes_before_that_of_openai() -> None:
    """As before."""
    assert key_for("http://localhost", KEY | {"VLLM_API_KEY": "another"}, send=False) == "another"
