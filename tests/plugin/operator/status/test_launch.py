"""How a server was started, without secrets, and the warnings of its log in the status."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from headway.logs.last_warnings import LastWarnings, keep_last_warnings
from headway.operator.status.launch import HIDDEN, shown_arguments, shown_variables, warning_lines

SECRET = "s3cr3t-value"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--api-key", SECRET],
        ["--api-key", "a", SECRET],
        [f"--api-key={SECRET}"],
        ["--api_key", SECRET],
        ["--api-k", SECRET],
        ["--hf-token", SECRET],
        ["--hf", SECRET],
        ["--some-password", SECRET],
        ["--pwd", SECRET],
        ["--x.apikey", SECRET],
        ["--otlp-traces-endpoint", f"https://host/v1?apikey={SECRET}"],
        ["--kv-transfer-config", f'{{"accesskey": "{SECRET}"}}'],
        ["--config.api_key", SECRET],
        ["--kv-transfer-config", f'{{"extra": {{"apiKey": "{SECRET}"}}}}'],
        ["--kv-transfer-config.authToken", SECRET],
        ["--proxy", f"http://user:{SECRET}@host:1/v1"],
        ["--proxy", f"http://host/?token={SECRET}"],
    ],
)
def test_what_may_be_secret_is_hidden(arguments: list[str]) -> None:
    """In each form that vLLM's parser takes."""
    found = " ".join(shown_arguments(["serve", "model", *arguments, "--port", "8000"]))
    assert SECRET not in found
    assert HIDDEN in found
    assert found.endswith("--port 8000")


def test_the_rest_stands_as_it_was_given() -> None:
    """Words that only resemble a secret are none."""
    given = ["serve", "m", "--max-num-batched-tokens", "2048", "--tokenizer=t", "--preset", "latency", "-tp", "2"]
    assert list(shown_arguments(given)) == given


def test_a_long_value_is_cut() -> None:
    """Such as a chat template."""
    assert len(list(shown_arguments(["--chat-template", "x" * 5000]))[1]) < 400


def test_the_variables_that_are_set_are_shown_without_secrets() -> None:
    """Those of Headway alone, and none that a server sets for its own processes."""
    environment = {
        "HEADWAY_PRESET": "latency", "HEADWAY_ADMIN_TOKEN": SECRET, "HEADWAY_ADMIN_TOKEN_FILE": "/run/token",
        "HEADWAY_FALLBACK_URL": f"http://me:{SECRET}@host/v1", "HEADWAY_BEHIND_QUEUE": "1", "HOME": "/root",
        "HEADWAY_WARMUP": "",
    }  # fmt: skip
    shown = {"HEADWAY_PRESET": "latency", "HEADWAY_FALLBACK_URL": f"http://{HIDDEN}@host/v1"}
    assert shown_variables(environment) == shown


@pytest.fixture
def kept() -> Iterator[None]:
    """The warnings of Headway's loggers are kept."""
    keep_last_warnings()
    keep_last_warnings()
    yield
    ours = logging.getLogger("headway")
    for handler in [one for one in ours.handlers if isinstance(one, LastWarnings)]:
        ours.removeHandler(handler)


def test_the_status_has_the_last_warnings(kept: None) -> None:
    """Once, although they were asked for twice; and none where nobody asked."""
    logging.getLogger("headway.tried").warning("disk %s", "full")
    (line,) = warning_lines()
    assert (line.level, line.logger, line.message, line.times) == ("WARNING", "headway.tried", "disk full", 1)
    assert line.time.endswith("Z")


def test_nothing_is_kept_that_nobody_asked_for() -> None:
    """As in a wrapped engine, whose log is the program's own."""
    logging.getLogger("headway.tried").warning("disk full")
    assert warning_lines() == []


def test_nothing_is_kept_where_the_log_may_have_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by a server nor by a front."""
    monkeypatch.setenv("HEADWAY_LOG_CONTENT", "1")
    keep_last_warnings()
    logging.getLogger("headway.tried").warning("prompt")
    assert warning_lines() == []
