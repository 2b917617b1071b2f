"""The environment that ``headway serve`` sets for the plugin and for vLLM."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.cli.environment import allowed_plugins, engine_defaults, plugin_environment


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
    ("engine", "config", "expected"),
    [
        pytest.param([], "", {"--scheduling-policy", "--max-num-seqs"}, id="both"),
        pytest.param(["--max_num_seqs=4"], "", {"--scheduling-policy"}, id="seats given"),
        pytest.param(["--scheduling-policy", "fcfs"], "", {"--max-num-seqs"}, id="policy given"),
        pytest.param([], "max_num_seqs: 4\nport: 1\n", {"--scheduling-policy"}, id="seats in the file"),
        pytest.param([], "# max-num-seqs: 4\n", {"--scheduling-policy", "--max-num-seqs"}, id="commented out"),
        pytest.param([], None, {"--scheduling-policy", "--max-num-seqs"}, id="no such file"),
    ],
)
def test_defaults_are_added_unless_the_user_chose(
    engine: list[str], config: str | None, expected: set[str], tmp_path: Path
) -> None:
    """On the command line or in ``--config``."""
    file = tmp_path / "c.yaml"
    if config is not None:
        file.write_text(config)
    added = engine_defaults([*engine, "--config", str(file)], 64)
    assert set(added[::2]) == expected
    assert dict(zip(added[::2], added[1::2], strict=True)).get("--max-num-seqs", "64") == "64"
