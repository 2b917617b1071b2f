"""The table of what is changed in vLLM, and its switch."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from headway import HeadwayError
from headway.patches import PATCHES, in_force_words, switched_off
from headway.vllm_adapter.process.progress import FILE_BYTES

hooks = importlib.import_module("headway.vllm_adapter.engine_core_hooks")


def test_none_is_switched_off_by_itself() -> None:
    """Every patch is in force, and the start line names each."""
    assert switched_off({}) == frozenset()
    assert in_force_words(()) == "patches of vLLM in force: " + ", ".join(patch.name for patch in PATCHES)


def test_one_that_is_switched_off_is_named() -> None:
    """The start line says so."""
    off = switched_off({"HEADWAY_PATCHES_OFF": " ranks,cpu-yield ,"})
    assert off == {"ranks", "cpu-yield"}
    assert in_force_words(off).endswith("; switched off: cpu-yield, ranks")
    assert in_force_words((), {"cpu-yield"}) == in_force_words(()).replace("cpu-yield, ", "")


def test_what_only_adds_to_vllm_stays() -> None:
    """Without these calls the server could not ask its engine anything."""
    with pytest.raises(HeadwayError, match="no patch 'engine-calls' can be switched off"):
        switched_off({"HEADWAY_PATCHES_OFF": "engine-calls"})


def test_a_name_that_is_none_is_refused() -> None:
    """A misspelt switch would leave the patch in force, in silence."""
    with pytest.raises(
        HeadwayError, match="HEADWAY_PATCHES_OFF: no patch 'rank' can be switched off; there are progress"
    ):
        switched_off({"HEADWAY_PATCHES_OFF": "ranks,rank"})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["progress", "death-cause", "limits-page", "step-ring", "none of these"])
def test_each_of_the_engine_can_be_switched_off(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A patch switched off leaves EngineCore as vLLM made it; all others are made."""
    core, proc = (
        type("EngineCore", (), {"step": lambda self: 1}),
        type("Proc", (), {"_send_engine_dead": lambda self: 1}),
    )
    module = type("Module", (), {"EngineCore": core, "EngineCoreProc": proc})
    monkeypatch.setitem(hooks.sys.modules, "vllm.v1.engine.core", module)
    file = tmp_path / "engine.progress"
    file.write_bytes(bytes(FILE_BYTES))
    monkeypatch.setenv("HEADWAY_ENGINE_PROGRESS", str(file))
    tell = proc._send_engine_dead  # type: ignore[attr-defined]
    hooks._change_core(frozenset({name}))
    made = {
        "progress": hasattr(core, "headway_reports_progress"),
        "death-cause": proc._send_engine_dead is not tell,  # type: ignore[attr-defined]
        "limits-page": hasattr(core, "headway_limits_page"),
        "step-ring": hasattr(core, "headway_records_steps"),
    }
    assert made == {other: other != name for other in made}
    assert hasattr(core, hooks.SET_LIMITS)
