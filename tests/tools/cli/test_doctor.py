"""``headway doctor``."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest

from headway.checks.finding import Severity, fail, ok, warn
from headway_tools.cli import doctor, main
from headway_tools.console import Exit

TOKEN = "t" * 32


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A configuration without faults."""
    for name in ("VLLM_API_KEY", "VLLM_SERVER_DEV_MODE", "HEADWAY_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HEADWAY_ADMIN_TOKEN", TOKEN)
    monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path))


def test_a_failure_is_exit_code_one_and_has_its_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under its line, with an arrow."""
    monkeypatch.setenv("VLLM_ALLOW_INSECURE_SERIALIZATION", "1")
    assert main(["doctor"]) == Exit.FAILED
    lines = capsys.readouterr().out.splitlines()
    (place,) = [at for at, line in enumerate(lines) if "VLLM_ALLOW_INSECURE_SERIALIZATION=1" in line]
    assert lines[place].startswith("  fail  ")
    assert lines[place + 1] == "        -> unset VLLM_ALLOW_INSECURE_SERIALIZATION"


def test_json_has_every_finding_with_its_section(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the worst severity of all, which decides the exit code."""
    monkeypatch.setenv("HEADWAY_KEY_FILE", "x")
    code = main(["doctor", "--json"])
    whole = json.loads(capsys.readouterr().out)
    assert (code == Exit.FAILED) is (whole["severity"] == "fail")
    assert {one["section"] for one in whole["findings"]} == {"installed", "machine", "configuration"}
    assert set(whole["findings"][0]) == {"section", "severity", "what", "remedy"}
    assert "did you mean HEADWAY_KEYS_FILE?" in [one["remedy"] for one in whole["findings"]]


def test_a_class_that_no_preset_has_is_found_in_the_keys_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a warning with the closest class."""
    path = tmp_path / "keys.toml"
    path.touch(0o600)
    path.write_text('[tenants.a]\nclasses = ["realtme"]\n')
    monkeypatch.setenv("HEADWAY_KEYS_FILE", str(path))
    main(["doctor", "--json"])
    (found,) = [one for one in json.loads(capsys.readouterr().out)["findings"] if "realtme" in one["what"]]
    assert (found["severity"], found["remedy"]) == (
        "warn", "the classes are: realtime, normal, batch; did you mean realtime?",
    )  # fmt: skip


def test_the_words_of_serve_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    """Its own flags and those of vLLM, in order and last."""
    words = ["./my-model", "--preset", "none", "--host", "0.0.0.0", "--shutdown-timeout=0", "--grpc"]
    assert main(["doctor", *words]) == Exit.FAILED
    out = " ".join(capsys.readouterr().out.split())
    for wanted in ("--shutdown-timeout 0: ", "--grpc starts", "without TLS", "there is no preset 'none'"):
        assert wanted in out


@pytest.mark.parametrize("words", [["--enforce-eager"], ["--quick-start"]], ids=" ".join)
def test_a_start_without_compilation_is_information_with_its_price(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """By vLLM's flag or by ours."""
    main(["doctor", "--json", "./my-model", *words])
    findings = json.loads(capsys.readouterr().out)["findings"]
    (found,) = [finding for finding in findings if finding["severity"] == "info"]
    assert found["section"] == "configuration"
    assert "each token takes longer" in found["what"]


def test_a_running_server_is_asked_and_its_port_may_be_taken(capsys: pytest.CaptureFixture[str]) -> None:
    """Its own section; where it does not answer, that fails."""
    url = "http://127.0.0.1:1"
    assert main(["doctor", "--json", "--url", f"{url}/"]) == Exit.FAILED
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [one["what"].partition(" (")[0] for one in findings if one["section"] == url] == [f"{url} does not answer"]
    assert not [finding for finding in findings if "address of the server" in finding["what"]]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["m"], {"host": None, "api_key": None, "shutdown_timeout": None, "grpc": False}),
        (["m", "--host", "::1", "--api-key", "a", "b", "--port", "1"], {"host": "::1", "api_key": ["a", "b"]}),
        (["m", "--api_key=a", "--uds", "/s"], {"api_key": ["a"], "uds": "/s"}),
        (["m", "--shutdown-timeout", "30"], {"shutdown_timeout": 30}),
        (["m", "--shutdown-timeout", "soon"], {"shutdown_timeout": None}),
        (["m", "-asc", "2", "--root-path", "/a"], {"behind_one_queue": True, "root_path": "/a"}),
        (["m", "--ssl-cert-reqs", "2", "--headless"], {"ssl_cert_reqs": 2, "headless": True}),
        (["m", "--ssl-cert-reqs=0"], {"ssl_cert_reqs": 0, "headless": False}),
        (["m", "--max-num-seqs", "8", "-tp", "2", "-dp", "3"], {"max_num_seqs": 8, "workers": 2}),
        (["m", "--max-num-seqs", "many", "--enforce-eager"], {"max_num_seqs": None, "enforce_eager": True}),
        (["m", "-dph", "--data_parallel_size=4", "-dpl", "2"], {"data_parallel_hybrid_lb": True}),
        (["m", "-dp", "4", "-dpb", "ray", "-n", "2"], {"data_parallel_backend": "ray", "nnodes": 2}),
        (["m", "--kv-transfer-config", '{"kv_role": "kv_both"}'], {"kv_transfer_config": {"kv_role": "kv_both"}}),
        (["m", "--kv-transfer-config", "a file"], {"kv_transfer_config": None}),
    ],
)
def test_the_arguments_of_vllm_are_read_from_its_words(words: list[str], expected: dict[str, object]) -> None:
    """As far as the checks need them."""
    assert vars(doctor.arguments(words)).items() >= expected.items()


def test_the_arguments_of_vllm_are_read_from_its_file_as_well(tmp_path: Path) -> None:
    """The command line wins."""
    file = tmp_path / "serve.yaml"
    file.write_text(
        "host: 10.0.0.1\napi-key: secret\nshutdown-timeout: 0\ndata_parallel_size: 4\n"
        'enable-elastic-ep: true\nkv-transfer-config: \'{"kv_connector": "NixlConnector"}\'\n'
    )
    found = doctor.arguments(["m", "--config", str(file), "--host", "127.0.0.1"])
    assert found == Namespace(
        host="127.0.0.1",
        uds=None,
        ssl_certfile=None,
        api_key=["secret"],
        shutdown_timeout=0,
        grpc=False,
        root_path=None,
        ssl_ca_certs=None,
        ssl_cert_reqs=None,
        enable_ssl_refresh=False,
        headless=False,
        behind_one_queue=False,
        max_num_seqs=None,
        workers=1,
        enforce_eager=False,
        data_parallel_size=4,
        data_parallel_size_local=None,
        data_parallel_rank=None,
        data_parallel_start_rank=None,
        data_parallel_backend=None,
        data_parallel_external_lb=False,
        data_parallel_hybrid_lb=False,
        data_parallel_multi_port_external_lb=False,
        nnodes=None,
        enable_elastic_ep=True,
        kv_transfer_config={"kv_connector": "NixlConnector"},
    )


@pytest.mark.parametrize(
    "words",
    [
        ["--data-parallel-hybrid-lb"],
        ["--data-parallel-size", "4", "--data-parallel-backend", "ray"],
        ["--data-parallel-size", "4", "--data-parallel-size-local", "2"],
        ["--enable-elastic-ep"],
        ["--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'],
    ],
)
def test_what_a_start_would_refuse_fails_here(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """With the words of the start itself."""
    assert main(["doctor", "--json", "model", *words]) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    (found,) = [one["what"] for one in findings if one["severity"] == "fail" and one["section"] == "configuration"]
    assert words[0].partition("-size")[0] in found


def test_a_command_in_a_finding_is_broken_at_spaces_only() -> None:
    """A path of many hyphens, or longer than a line, can be copied."""
    path = f"'/{'a-folder-' * 14}/vllm_headway-0.1.0-py3-none-any.whl[cpu]'"
    text = doctor.text({"one": [fail(f"{'it is not ' * 9}{path}", f"install it with: pip install {path}")]})
    assert [line.split()[-1] for line in text.splitlines() if path in line] == [path, path]


def test_the_text_has_a_section_each_and_the_counts() -> None:
    """A long finding is wrapped below its first word."""
    text = doctor.text({"one": [ok("well"), warn("w " * 80, "do it")], "two": [fail("bad", "mend it")]})
    lines = text.splitlines()
    assert lines[0] == "one"
    assert lines[1] == "  ok    well"
    assert lines[2].startswith("  warn  w w")
    assert lines[3].startswith("        w w")
    assert lines[-1] == "1 ok, 0 info, 1 warn, 1 fail"
    assert all(len(line) <= 110 for line in lines)
    assert json.loads(doctor.as_json({"two": [fail("bad", "mend it")]}))["severity"] == Severity.FAIL
