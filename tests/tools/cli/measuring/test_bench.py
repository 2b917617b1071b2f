"""``headway bench`` against a stand-in of a server."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from load_stand_in import LoadStandIn
from tcp_servers import closed_address

from headway_tools.cli import main
from headway_tools.load import api_key
from headway_tools.load.ramp import LOADS, TURNED, RampStep, ramp

SHORT = ("--duration", "0.4", "--rate", "100", "--timeout", "10")


def bench(*words: str) -> int:
    """Run it."""
    return main(["bench", *words])


def test_the_table_has_each_class_with_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """And the exit code says that each request got an answer."""
    with LoadStandIn() as server:
        assert bench("--url", server.url, *SHORT) == 0
    out = capsys.readouterr().out
    assert "model stand-in\nopen loop of 100.00 requests/s\n" in out
    rows = [line.split("  ")[0].strip() for line in out.splitlines()]
    for name in (
        "every class",
        "class realtime",
        "class normal",
        "class batch",
        "without an answer",
        "output, tokens/s",
    ):
        assert name in rows
    assert out.count("first token, ms") == 4


def test_json_and_csv_have_the_same_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each class, and one for all; refusals by reason with their Retry-After."""
    file = tmp_path / "figures.csv"
    with LoadStandIn() as server:
        slo = ("--slo-ttft-ms", "60000", "--slo-inter-token-ms", "60000")
        words = ("--classes", "chat=0.5,refused=0.5", *slo, "--json", "--csv", str(file))
        assert bench("--url", server.url, *SHORT, *words) == 0
    answer = json.loads(capsys.readouterr().out)
    (served,) = answer["servers"]
    classes = {one["class"]: one for one in served["classes"]}
    assert set(classes) == {"all", "chat", "refused"}
    refused = classes["refused"]
    assert refused["refused_by"] == {"429 queue_full": refused["offered"]}
    assert (refused["retry_after_s"], refused["with_retry_after"]) == ([7, 7], refused["offered"])
    assert classes["chat"]["good"] == classes["chat"]["completed"] == classes["chat"]["offered"]
    assert classes["all"]["offered"] == classes["chat"]["offered"] + refused["offered"]
    assert (served["unanswered"], answer["capacity_per_s"]) == (0, None)
    rows = {row["class"]: row for row in csv.DictReader(file.read_text().splitlines())}
    assert rows.keys() == classes.keys()
    assert float(rows["chat"]["goodput_per_s"]) == pytest.approx(classes["chat"]["goodput_per_s"], rel=1e-4)
    assert rows["refused"]["retry_after_s"] == "7 to 7"


def test_a_class_that_was_not_given_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A key that has less urgent classes only: the figures of the class are those of another one."""
    with LoadStandIn() as server:
        words = ("--url", server.url, *SHORT, "--classes", "realtime=0.5,normal=0.5")
        assert bench(*words) == 0
        assert "API_KEY" not in capsys.readouterr().err
        server.given = {"realtime": "batch"}
        assert bench(*words) == 0
    said = capsys.readouterr().err
    assert said.count(f"{server.url} ran class realtime as batch: the key has no realtime; set OPENAI_API_KEY to ") == 1
    assert "class normal" not in said


def test_a_server_without_keys_is_told_from_a_key_without_the_class(capsys: pytest.CaptureFixture[str]) -> None:
    """The remedy is another one: a keys file."""
    with LoadStandIn() as server:
        server.given, server.why = {"realtime": "normal"}, "no_key"
        assert bench("--url", server.url, *SHORT, "--classes", "realtime=1") == 0
    said = capsys.readouterr().err
    assert (
        "ran class realtime as normal: the server knows no keys; set HEADWAY_KEYS_FILE, and: headway keys add" in said
    )


def test_each_class_is_judged_by_what_the_preset_of_the_server_states(capsys: pytest.CaptureFixture[str]) -> None:
    """Unless an objective is given; and only the classes that the server has are offered."""
    with LoadStandIn(token_s=0.001) as server:
        server.metrics = "".join(
            f'{name}{{class="{kind}"{label}}} {value}\n'
            for kind in ("realtime", "normal")
            for name, label, value in (
                ("headway_queue_depth", "", 0),
                ("headway_objective_seconds", ',objective="first_token"', 1e-9 if kind == "realtime" else 3e9),
            )
        )
        assert bench("--url", f"{server.url}/v1", *SHORT, "--json") == 0
        judged = json.loads(capsys.readouterr().out)
        assert judged["slo_by_class"]["realtime"] == {"ttft_s": 0.0, "inter_token_s": None}
        ratios = {one["class"]: one["attained_ratio"] for one in judged["servers"][0]["classes"]}
        assert (ratios["realtime"], ratios["normal"], len(ratios)) == (0.0, 1.0, 3)
        assert bench("--url", server.url, *SHORT, "--slo-ttft-ms", "60000", "--slo-inter-token-ms", "60000") == 0
    assert "objectives: first token within 60000 ms, 60000 ms between tokens\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "VLLM_API_KEY"])
def test_the_key_of_the_clients_is_sent(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable that the documents export, or vLLM's own."""
    for variable in ("OPENAI_API_KEY", "VLLM_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(name, "the-key")
    with LoadStandIn() as server:
        assert bench("--url", server.url, *SHORT) == 0
        assert {one["key"] for one in server.asked} == {"Bearer the-key"}


def test_a_server_on_another_machine_gets_no_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unless --send-key is given; that of --compare is judged by itself."""
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "the-key")
    monkeypatch.setattr(api_key, "is_loopback", lambda host: host == "localhost")
    with LoadStandIn() as here, LoadStandIn() as there:
        urls = ("--url", here.url.replace("127.0.0.1", "localhost"), "--compare", there.url)
        assert bench(*urls, *SHORT) == 0
        assert {one["key"] for one in here.asked} == {"Bearer the-key"}
        assert {one["key"] for one in there.asked} == {None}
        assert f"OPENAI_API_KEY is not sent to {there.url}" in capsys.readouterr().err
        there.asked.clear()
        assert bench(*urls, *SHORT, "--send-key") == 0
        assert {one["key"] for one in there.asked} == {"Bearer the-key"}


def test_a_run_in_which_nothing_is_completed_is_exit_code_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Although each request got an answer: a refusal."""
    with LoadStandIn() as server:
        assert bench("--url", server.url, *SHORT, "--classes", "refused=1") == 1
    assert f"{server.url}: no request was completed" in capsys.readouterr().err


def test_a_request_without_an_answer_is_exit_code_one(capsys: pytest.CaptureFixture[str]) -> None:
    """And stands in the table with its reason."""
    with LoadStandIn() as server:
        assert bench("--url", server.url, *SHORT, "--classes", "cut=1") == 1
    assert "failed, the stream was cut" in capsys.readouterr().out


@pytest.mark.slow
def test_the_same_seed_offers_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """Another one does not; tenants are those of the workload."""
    drawn = []
    for seed in ("5", "5", "6"):
        with LoadStandIn() as server:
            assert bench("--url", server.url, *SHORT, "--workload", "W6", "--seed", seed, "--json") == 0
            drawn.append([(len(one["prompt"]), one["max_tokens"], one["tenant"]) for one in server.asked[1:]])
    assert sorted(drawn[0]) == sorted(drawn[1]) != sorted(drawn[2])
    assert {tenant for _, _, tenant in drawn[0]} >= {"greedy", "large"}
    assert json.loads(capsys.readouterr().out.splitlines()[0])["servers"][0]["jain"] > 0


@pytest.mark.slow
def test_two_servers_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """Both columns and the ratios with their extremes."""
    with LoadStandIn() as a, LoadStandIn() as b:
        assert bench("--url", a.url, "--compare", b.url, *SHORT, "--block", "0.2") == 0
        assert a.classes == b.classes
    out = capsys.readouterr().out
    assert f"A {a.url}  B {b.url}" in out
    assert "extremes of 2 pairs" in out


@pytest.mark.slow
def test_the_load_is_a_multiple_of_the_measured_capacity(capsys: pytest.CaptureFixture[str]) -> None:
    """Measured in a closed loop first."""
    words = ("--load", "0.5", "--measure", "1", "--duration", "1", "--clients", "4", "--json")
    with LoadStandIn(seats=4, token_s=0.002) as server:
        assert bench("--url", server.url, *words) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["rate_per_s"] == pytest.approx(0.5 * answer["capacity_per_s"])


@pytest.mark.slow
def test_a_ramp_names_the_knee_and_draws_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two seats take so much and no more: beyond that the latency grows, and the tokens a second do not.

    It is climbed once, and shown in each form.
    """
    climbed: list[RampStep] = []

    async def once(*of: Any) -> list[RampStep]:
        if not climbed:
            climbed.extend(await ramp(*of))
        return climbed

    monkeypatch.setattr("headway_tools.cli.measuring.bench.ramp", once)
    figures, drawn = tmp_path / "ramp.csv", tmp_path / "ramp.html"
    times = ("--duration", "1.5", "--measure", "1", "--timeout", "20")
    words = ("--ramp", *times, "--clients", "8", "--csv", str(figures))
    with LoadStandIn(seats=2, token_s=0.004, longest=8) as server:
        assert bench("--url", server.url, *words, "--json") == 0
        answer = json.loads(capsys.readouterr().out)
        assert bench("--url", server.url, *words, "--html", str(drawn)) == 0
    steps, knee = answer["steps"], answer["knee"]
    assert [one["load"] for one in steps] == [*LOADS][: len(steps)]
    assert len(steps) == len(LOADS) or steps[-1]["first_token_p95_ms"] >= TURNED * steps[0]["first_token_p95_ms"]
    assert knee in steps[:-1]
    assert knee["first_token_p95_ms"] < steps[-1]["first_token_p95_ms"]
    assert all(one["rate_per_s"] == pytest.approx(one["load"] * answer["capacity_per_s"]) for one in steps)
    out = capsys.readouterr().out
    assert "\nthe knee is at " in out
    assert " (Kneedle; Satopaa et al., ICDCSW 2011)" in out
    assert "tokens/s by times the capacity; the knee is in brackets" in out
    rows = list(csv.DictReader(figures.read_text().splitlines()))
    assert [float(row["load"]) for row in rows] == [*LOADS][: len(rows)]
    assert "Throughput and latency" in drawn.read_text()


@pytest.mark.slow
def test_a_ramp_of_a_server_that_refuses_all_is_exit_code_one(capsys: pytest.CaptureFixture[str]) -> None:
    """It ends with the first step."""
    with LoadStandIn() as server:
        words = ("--ramp", "--rate", "100", "--duration", "0.4", "--classes", "refused=1")
        assert bench("--url", server.url, *words) == 1
    said = capsys.readouterr()
    assert "no knee" in said.out
    assert "no request of the first step was completed" in said.err


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--workload", "W4"), 2, "W4 is a closed batch; for its throughput use `vllm bench serve`"),
        (("--workload", "W99"), 2, "there is no workload 'W99'"),
        (("--rate", "1", "--load", "1"), 2, "give either --rate or --load"),
        (("--trace", "no-such.csv"), 2, "no-such.csv: cannot be read"),
        (("--trace", "a", "--workload", "W1"), 2, "give either --workload or --trace"),
        (("--scale-lengths", "2"), 2, "--scale-lengths belongs to --trace"),
        (("--rate", "0"), 2, "a number above 0 is needed"),
        (("--ramp", "--load", "1"), 2, "give neither --load nor --compare"),
        (("--ramp", "--compare", "http://127.0.0.1:1"), 2, "give neither --load nor --compare"),
        (("--html", "x.html"), 2, "--html belongs to --ramp"),
        (("--clients", "0"), 2, "a number from 1 to 1024 is needed"),
        (("--classes", "=1"), 2, "classes look like"),
        (("--rate", "1e6", "--duration", "1e6"), 2, "more than 1000000 requests"),
        (("--rate", "0.0001", "--duration", "1"), 2, "no request arrives in that time"),
        (("--csv", "/no/such/folder/x.csv"), 2, "/no/such/folder/x.csv: cannot be written"),
    ],
)
def test_wrong_usage_is_one_line(
    words: tuple[str, ...], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the exit code of the help."""
    with LoadStandIn() as server:
        assert bench("--url", server.url, *words) == code
    err = capsys.readouterr().err
    assert text in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("flag", ["--url", "--compare"])
def test_a_server_that_is_not_there_is_exit_code_three(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Either of them, before any load."""
    url = f"http://{closed_address()}"
    with LoadStandIn() as server:
        assert bench("--url", server.url, flag, url, *SHORT) == 3
        assert server.classes == {}
    assert capsys.readouterr().err == f"headway: error: no server answers at {url}; is it running?\n"


@pytest.mark.parametrize("flag", ["--url", "--compare"])
@pytest.mark.parametrize("url", ["", "foo", "127.0.0.1:8000"])
def test_what_is_no_url_is_wrong_usage(flag: str, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As for the other commands, and before any load."""
    with LoadStandIn() as server:
        assert bench("--url", server.url, flag, url, *SHORT) == 2
        assert server.classes == {}
    assert f"not a URL of a server, such as http://127.0.0.1:8000: {url!r}" in capsys.readouterr().err
