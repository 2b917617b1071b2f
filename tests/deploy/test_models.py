from __future__ import annotations

import json
from pathlib import Path

import models
import pytest


def make_nothing(source: Path, dest: Path) -> None:
    (dest / "config.json").write_text("{}")


@pytest.fixture
def packaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "weights.gguf"
    monkeypatch.setattr(models, "find_gguf", lambda: path)
    return path


def test_a_model_is_complete_or_not_there(packaged: Path, tmp_path: Path) -> None:
    """A maker that fails half-way leaves no folder, and no scratch folder either."""

    def fail(source: Path, dest: Path) -> None:
        make_nothing(source, dest)
        raise models.ModelError("no")

    with pytest.raises(models.ModelError):
        models._ensure(tmp_path / "out" / "model", "a 1", fail)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_complete_model_is_not_made_again(packaged: Path, tmp_path: Path) -> None:
    """The second call makes nothing."""
    dest = tmp_path / "model"
    models._ensure(dest, "a 1", make_nothing)
    (dest / "config.json").write_text("kept")
    models._ensure(dest, "a 1", make_nothing)
    assert (dest / "config.json").read_text() == "kept"


def test_a_model_of_an_older_recipe_is_made_anew(packaged: Path, tmp_path: Path) -> None:
    """The marker names the recipe."""
    dest = tmp_path / "model"
    models._ensure(dest, "a 1", make_nothing)
    (dest / models.COMPLETE).write_text("0")
    (dest / "config.json").write_text("old")
    models._ensure(dest, "a 1", make_nothing)
    assert (dest / "config.json").read_text() == "{}"


def test_another_model_takes_the_place_of_one(packaged: Path, tmp_path: Path) -> None:
    """Each has a recipe of its own."""
    dest = tmp_path / "model"
    models._ensure(dest, "a 1", make_nothing)
    (dest / "config.json").write_text("that of a")
    models._ensure(dest, "b 1", make_nothing)
    assert (dest / "config.json").read_text() == "{}"


def test_a_folder_of_another_origin_is_not_overwritten(packaged: Path, tmp_path: Path) -> None:
    """A folder without the set-up's marker is never deleted."""
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(models.ModelError, match="has other files"):
        models._ensure(tmp_path, "a 1", make_nothing)
    assert (tmp_path / "thesis.txt").exists()


def test_a_missing_package_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback, and the command that helps."""
    monkeypatch.setattr(models.importlib.util, "find_spec", lambda name: None)
    assert models.main(["tiny", str(tmp_path / "tiny")]) == 1
    message = capsys.readouterr().err
    assert "make setup" in message
    assert message.count("\n") == 1


def test_the_packaged_weights_are_found_without_importing_their_engine() -> None:
    """Importing the package would import another inference engine, which is not installed."""
    pytest.importorskip("gguf", reason="the model tools are not installed")
    assert models.find_gguf().name == models.GGUF_NAME


def test_the_tiny_model_is_tiny_and_generates_text(root: Path) -> None:
    """Two layers, and the tokenizer and chat template of the real model."""
    tiny = root / ".models" / "tiny"
    if not tiny.is_dir():
        pytest.skip(".models/tiny is missing: make test prepares it")
    config = json.loads((tiny / "config.json").read_text())
    assert (config["num_hidden_layers"], config["vocab_size"]) == (2, 49152)
    assert "im_start" in (tiny / "chat_template.jinja").read_text()
