"""The engine of ``headway simulate``: as the workload needs it, or like that of a running server."""

from __future__ import annotations

import json

import pytest
from admin_stand_in import Stub

from headway.api.schema import StepTime
from headway_tools.cli import main

SHORT = ["simulate", "--duration", "20"]


def test_the_tight_workload_brings_its_kv_space_and_a_flag_overrides_it(capsys: pytest.CaptureFixture[str]) -> None:
    """6,400 tokens by default."""
    for words, tokens in (([], 6400), (["--kv-tokens", "12800"], 12800)):
        assert main(["simulate", "--strategies", "32", "--workload", "W5", "--json", *words]) == 0
        assert json.loads(capsys.readouterr().out)["model"]["kv_tokens"] == tokens


def test_the_workload_with_system_prompts_brings_a_prefix_cache(capsys: pytest.CaptureFixture[str]) -> None:
    """And KV space for 8 prompts; any other workload has none."""
    for workload, cached in (("W7", True), ("W1", False)):
        assert main(["simulate", "--workload", workload, "--duration", "5", "--json"]) == 0
        model = json.loads(capsys.readouterr().out)["model"]
        assert (model["prefix_cache"], model["kv_tokens"] == 8 * 512) == (cached, cached)


def test_the_workload_with_adapters_brings_an_engine_that_runs_two(capsys: pytest.CaptureFixture[str]) -> None:
    """Any other workload has no adapters."""
    for workload, most in (("W9", 2), ("W1", None)):
        assert main(["simulate", "--workload", workload, "--duration", "5", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["model"]["most_adapters"] == most


def like(stub: Stub, error_ratio: float = 0.03) -> list[str]:
    """The words for the engine of a server that has fitted its step time."""
    stub.step_time = StepTime(base_s=0.02, sequence_s=0.002, prompt_token_s=0.0004, error_ratio=error_ratio)
    return [*SHORT, "--json", "--like", stub.url]


def test_the_engine_is_that_of_a_running_server(operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """Its fit and its sequences, beside what it does not know; constants that are given win."""
    assert main(like(operator)) == 0
    out, err = capsys.readouterr()
    model = json.loads(out)["model"]
    assert (model["base_s"], model["seat_s"], model["prefill_s"]) == (0.02, 0.002, 0.0004)
    assert (model["max_num_seqs"], model["kv_tokens"]) == (64, 131_072)
    assert "poor fit" not in err
    own = ["--seat-ms", "1", "--context-ms", "20", "--max-num-seqs", "16", "--kv-tokens", "4096"]
    assert main([*like(operator), *own]) == 0
    model = json.loads(capsys.readouterr().out)["model"]
    assert (model["base_s"], model["seat_s"], model["context_s"]) == (0.02, 0.001, 0.02)
    assert (model["max_num_seqs"], model["kv_tokens"]) == (16, 4096)


def test_a_poor_fit_is_a_warning_beside_the_output(operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, so that the output can still be read by a program."""
    assert main(like(operator, error_ratio=0.22)) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["model"]["base_s"] == 0.02
    (line,) = [line for line in err.splitlines() if "warning" in line]
    assert line.startswith(f"headway: warning: poor fit: the step time of {operator.url} is off by 22%")


def test_a_server_without_a_fit_is_no_model(operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """One line and exit code 1, no figures of another engine; 3 where nothing answers."""
    assert main([*SHORT, "--like", operator.url]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "too few requests have run" in err
    assert main([*SHORT, "--like", "http://127.0.0.1:1"]) == 3
