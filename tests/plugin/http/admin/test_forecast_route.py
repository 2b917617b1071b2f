"""``POST /headway/v1/presets/forecast``: what it refuses, and that it reads no file and imports no module."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from admin_api import admin_api, bearer

import headway
from headway.operator import unsaved_preset
from headway_policies import PresetError

PATH = "/headway/v1/presets/forecast"


@asynccontextmanager
async def admin() -> AsyncIterator[tuple[httpx.AsyncClient, headway.Control]]:
    """An operator of an engine that has served nothing yet."""
    async with admin_api() as (client, control):
        client.headers.update(bearer())
        yield client, control


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({}, 409, "step time is not known yet"),
        ({"presets": ["latency"]}, 409, "step time is not known yet"),
        ({"presets": ["no-such"]}, 422, "there is no preset 'no-such'"),
        ({"presets": []}, 422, "presets"),
        ({"presets": ["latency"] * 101}, 422, "presets"),
        ({"presets": "latency"}, 422, "presets"),
        ({"presets": ["latency"], "toml": "x"}, 422, "either presets or toml"),
        ({"toml": "name = "}, 422, "not valid TOML"),
        ({"toml": 'name = "a"\nextends = "/etc/passwd"'}, 422, "only a bundled preset may be extended"),
        ({"toml": 'name = "a"\nextends = "secrets.toml"'}, 422, "only a bundled preset may be extended"),
        ({"toml": 'name = "a"\nextends = 5'}, 422, "only a bundled preset may be extended"),
        ({"toml": 'name = "a"\nextends = "balanced"\nbatching.seats = 0'}, 422, "batching.seats"),
        ({"toml": "x" * 12_001}, 422, "toml"),
        ({"within_s": 0}, 422, "within_s"),
        ({"within_s": 1e9}, 422, "within_s"),
        ({"other": 1}, 422, "other"),
    ],
)
async def test_what_cannot_be_forecast_is_a_problem_that_says_why(
    body: dict[str, object], status: int, says: str
) -> None:
    """422 with the field, 409 where there can be no forecast now; nothing changes."""
    async with admin() as (client, control):
        answer = await client.post(PATH, json=body)
        assert answer.status_code == status
        assert says in answer.text
        assert (control.preset.name, control.revision) == ("balanced", 1)


@pytest.mark.parametrize("key", ["limit.policy", "ordering.inside", "ordering.between", "batching.window"])
def test_no_module_is_imported_for_a_forecast(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy by import path is refused before it is looked for."""
    (tmp_path / "spy_module.py").write_text("class Spy: ...", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PresetError, match="a policy of your own"):
        unsaved_preset(f'name = "a"\nextends = "balanced"\n{key} = "spy_module:Spy"\n')
    assert "spy_module" not in sys.modules


async def test_progress_is_none_while_nothing_is_computed() -> None:
    """Without a forecast it does not run."""
    async with admin() as (client, _):
        assert (await client.get(PATH)).json() == {"running": False, "done_ratio": 0.0}
