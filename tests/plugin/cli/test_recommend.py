"""``headway preset recommend``, alone and with what a server shows."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping

import pytest
from admin_stand_in import Stub

from headway.api.schema import Status
from headway.cli import main, traffic
from headway.cli.traffic import Look, between, fetch_samples, read_samples
from headway.console.exits import ServerUnreachableError
from headway_policies import bundled_presets

METRICS = """\
# TYPE headway_arrivals counter
headway_arrivals_total{{class="normal"}} {arrivals}
headway_arrivals_total{{class="batch"}} 1
# TYPE headway_batch_size histogram
headway_batch_size_bucket{{le="+Inf"}} {steps}
headway_batch_size_count {steps}
headway_batch_size_sum {sequences}
# TYPE headway_engine_kv_cache_usage_ratio gauge
headway_engine_kv_cache_usage_ratio 0.25
# TYPE vllm:inter_token_latency_seconds histogram
vllm:inter_token_latency_seconds_bucket{{le="0.05",engine="0"}} {quick}
vllm:inter_token_latency_seconds_bucket{{le="0.15",engine="0"}} {all}
vllm:inter_token_latency_seconds_bucket{{le="+Inf",engine="0"}} {all}
vllm:inter_token_latency_seconds_count{{engine="0"}} {all}
vllm:inter_token_latency_seconds_sum{{engine="0"}} 1
# TYPE vllm:num_preemptions counter
vllm:num_preemptions_total{{engine="0"}} 3
"""
BEFORE = METRICS.format(arrivals=10, steps=100, sequences=1000, quick=1000, all=1000)
AFTER = METRICS.format(arrivals=30, steps=110, sequences=1300, quick=1094, all=1100)


class Terminal(io.StringIO):
    """A user at a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("words", "preset"),
    [
        ([], "balanced"),
        (["--latency-sensitive"], "latency"),
        (["--throughput"], "throughput"),
        (["--offline"], "offline"),
        (["--inter-token-slo-ms", "60"], "interactive"),
    ],
)
def test_flags_lead_to_a_preset(words: list[str], preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No server is needed, and the reason is printed."""
    assert main(["preset", "recommend", *words]) == 0
    name, reason = capsys.readouterr().out.splitlines()
    assert name == preset
    assert reason.strip()


@pytest.mark.parametrize(
    ("typed", "preset"),
    [("y\n", "latency"), ("n\nyes\n", "offline"), ("\n\nY\n", "throughput"), ("\n\n\n", "balanced"), ("", "balanced")],
)
def test_without_flags_a_person_is_asked(
    typed: str, preset: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At most three queries; the end of the input means no."""
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    assert main(["preset", "recommend"]) == 0
    assert f"{preset}\n" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--latency-sensitive", "--offline"], ["--inter-token-slo-ms", "0"]])
def test_contradictions_and_nonsense_are_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """One line, exit code 2."""
    assert main(["preset", "recommend", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_server_is_looked_at_twice_and_what_happened_between_is_read(
    operator: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The advice is about the time watched, not about all since the start."""
    scrapes = iter([BEFORE, AFTER])
    waits: list[float] = []
    monkeypatch.setattr(traffic, "fetch_samples", lambda url: read_samples(next(scrapes)))
    monkeypatch.setattr(traffic.time, "sleep", waits.append)
    assert main(["preset", "recommend", "--url", operator.url, "--watch", "7", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert waits == [7.0]
    assert answer["preset"] == "balanced"
    assert "150 ms, not within the required 100 ms" in answer["advice"][0]["because"]


def test_the_numbers_between_two_looks() -> None:
    """Counters as differences, gauges as they are, the 95th percentile as the bound of its bucket."""
    seen = between(look(BEFORE), look(AFTER), bundled_presets()["interactive"].settings(), 7.0)
    assert (seen.arrivals, seen.mean_batch, seen.inter_token_ms, seen.preemptions) == (20, 30.0, 150.0, 0)
    assert (seen.kv_usage_ratio, seen.inter_token_slo_ms, seen.adaptive) == (0.25, 75.0, True)
    assert (seen.limit, seen.ceiling, seen.queued) == (32, 64, 2)


def test_a_server_at_rest_has_no_means() -> None:
    """Nothing is divided by nothing."""
    seen = between(look(AFTER), look(AFTER), {}, 7.0)
    assert (seen.arrivals, seen.mean_batch, seen.inter_token_ms) == (0, None, None)
    assert (seen.strategy, seen.adaptive, seen.inter_token_slo_ms) == ("continuous", False, 75.0)


def test_a_limit_in_the_shadow_is_not_adaptive() -> None:
    """It is computed and not applied."""
    settings: Mapping[str, object] = {"limit.policy": "model", "limit.shadow": True}
    assert not between(look(BEFORE), look(AFTER), settings, 7.0).adaptive


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((404, "text/plain", b"no"), "/metrics answered 404; check --url"),
        ((200, "text/html", b"<html>{"), "/metrics gave no metrics; check --url"),
    ],
)
def test_an_answer_that_is_no_metrics_is_refused(answer: tuple[int, str, bytes], message: str, operator: Stub) -> None:
    """A wrong URL is one line."""
    operator.answer_all = answer
    with pytest.raises(ServerUnreachableError, match="/metrics") as caught:
        fetch_samples(operator.url)
    assert str(caught.value).endswith(message)


def look(text: str) -> Look:
    """A moment of a server with these metrics."""
    return Look(Status.model_validate(Stub().status()), read_samples(text))
