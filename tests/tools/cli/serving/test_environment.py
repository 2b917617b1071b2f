"""The environment that ``headway serve`` sets for the plugin and for vLLM."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway_tools.cli.serving.environment import allowed_plugins, engine_defaults, plugin_environment, setting_of


@pytest.mark.parametrize(
    ("current", "installed", "expected"),
    [
        pytest.param(None, [], ["headway"], id="alone"),
        pytest.param(None, ["resolver", "headway"], ["headway", "resolver"], id="others that load by themselves stay"),
        pytest.param("", ["resolver"], ["headway"], id="the user wants none"),
        pytest.param("mine", ["resolver"], ["mine", "headway"], id="a list is added to"),
        pytest.param("headway,mine", [], ["headway", "mine"], id="named already"),
    ],
)
def test_our_plugin_is_allowed_and_no_other_is_lost(
    current: str | None, installed: list[str], expected: list[str]
) -> None:
    """VLLM_PLUGINS is an allow-list, so setting it must not switch anything off."""
    assert allowed_plugins(current, installed) == expected


def test_the_plugin_finds_preset_folder_and_warmup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names stay names, files become absolute."""
    monkeypatch.chdir(tmp_path)
    by_name = plugin_environment("latency", None, {}, warmup=True)
    assert by_name.keys() == {"VLLM_PLUGINS", "HEADWAY_PRESET"}
    assert by_name["HEADWAY_PRESET"] == "latency"
    by_file = plugin_environment("mine.toml", tmp_path, {}, warmup=False)
    assert by_file["HEADWAY_PRESET"] == str(tmp_path / "mine.toml")
    assert by_file["HEADWAY_PRESET_DIR"] == str(tmp_path)
    assert by_file["HEADWAY_WARMUP"] == "0"


@pytest.mark.parametrize(
    ("engine", "config", "added"),
    [
        pytest.param([], "", True, id="nothing said"),
        pytest.param(["--max_num_seqs=4"], "", True, id="another flag"),
        pytest.param(["--scheduling-policy", "fcfs"], "", False, id="policy given"),
        pytest.param([], "scheduling_policy: fcfs\nport: 1\n", False, id="policy in the file"),
        pytest.param([], "# scheduling-policy: fcfs\n", True, id="commented out"),
        pytest.param([], None, True, id="no such file"),
    ],
)
def test_the_scheduling_policy_alone_is_added_unless_the_user_chose(
    engine: list[str], config: str | None, added: bool, tmp_path: Path
) -> None:
    """On the command line or in ``--config``; the numbers of sequences and of tokens in a step are vLLM's."""
    file = tmp_path / "c.yaml"
    if config is not None:
        file.write_text(config)
    expected = ["--scheduling-policy", "priority"] if added else []
    assert engine_defaults([*engine, "--config", str(file)]) == expected


@pytest.mark.parametrize(
    ("engine", "expected"),
    [([], "80"), (["--max-num-seqs", "4"], "4"), (["--max-num-seqs"], "")],
    ids=["in the file", "on the command line", "without its value"],
)
def test_the_command_line_wins_over_the_file(engine: list[str], expected: str, tmp_path: Path) -> None:
    """As for vLLM; without either there is none."""
    file = tmp_path / "c.yaml"
    file.write_text("max-num-seqs: 80\n")
    assert setting_of(["m", "--config", str(file), *engine], "--max-num-seqs") == expected
    assert setting_of(["m"], "--max-num-seqs") is None
