"""The programs of plugin/examples: each runs as it stands, and does what its text says."""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from running_server import ROOT

from headway_policies import load_preset
from headway_policies.conformance import failures
from headway_policies.fallback import Rung
from headway_policies.preset import lint
from headway_policies.preset.rungs_used import usable_rungs
from headway_tools.cli import main as headway_command

EXAMPLES = ROOT / "plugin" / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))

Load = Callable[[str], Any]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Imports an example anew, as a program in its folder would."""
    monkeypatch.syspath_prepend(EXAMPLES)

    def imported(name: str) -> ModuleType:
        sys.modules.pop(name, None)
        return importlib.import_module(name)

    yield imported
    for name in NAMES:
        sys.modules.pop(name, None)


def test_each_file_is_in_the_list() -> None:
    """The table of the folder's README names every file in it, and no other."""
    named = set(re.findall(r"\]\((\w+\.\w+)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8")))
    assert named == {path.name for path in EXAMPLES.iterdir() if path.suffix in {".py", ".toml"}}


def test_an_engine_is_wrapped(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    """Two requests are answered, the one without enough time is refused, and the preset is switched."""
    found = asyncio.run(load("wrap_engine").main())
    assert (found["chat"], found["report"]) == ("answered", "answered")
    assert found["late"].startswith("refused: total_timeout")
    assert "preset: latency" in capsys.readouterr().out


def test_fastapi_answers_with_the_batchers_results_and_figures(load: Load) -> None:
    """Vectors, the figures with their schema, and a refusal with its status and Retry-After."""
    pytest.importorskip("fastapi")
    httpx = pytest.importorskip("httpx")
    example = load("batcher_api")

    async def talk() -> tuple[Any, ...]:
        transport = httpx.ASGITransport(app=example.app)
        async with (
            example.lifespan(example.app),
            httpx.AsyncClient(transport=transport, base_url="http://app") as client,
        ):
            vectors = await asyncio.gather(*(client.get("/embed", params={"text": text}) for text in ("a", "bcd")))
            wrong = await client.get("/embed", params={"text": "a", "priority": 3})
            stats = await client.get("/stats")
            schema = await client.get("/openapi.json")
        async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
            closed = await client.get("/embed", params={"text": "a"})
        return vectors, wrong, stats, schema, closed

    vectors, wrong, stats, schema, closed = asyncio.run(talk())
    assert [answer.json() for answer in vectors] == [[1.0, 0.0], [3.0, 6.0]]
    assert wrong.status_code == 422
    assert (stats.json()["total_requests"], stats.json()["outcomes"]["completed"]) == (2, 2)
    assert "queue_sizes" in schema.json()["components"]["schemas"]["BatcherStats"]["properties"]
    assert (closed.status_code, closed.headers["x-headway-reason"]) == (503, "draining")
    assert int(closed.headers["retry-after"]) >= 1


def test_own_policies_decide(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    """The engine gets the requests in the order of the example's order and discipline, not as they arrived."""
    started = asyncio.run(load("own_policies").main())
    waiting = [f"realtime-{words}" for words in (20, 50, 200, 400)] + [f"batch-{words}" for words in (20, 50, 200)]
    assert started == ["batch-400", *waiting]  # the first one found the seat free
    assert capsys.readouterr().out.startswith("in the order of the engine: batch-400, realtime-20")


def test_own_policies_conform(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    """The preset names one of each kind; the conformance suites and `headway preset validate` accept them."""
    load("own_policies")
    path = EXAMPLES / "own_policies.toml"
    preset = load_preset(path)
    assert set(preset.named_policies()) == {"ordering.between", "ordering.inside", "limit.policy", "batching.window"}
    assert failures(preset) == []
    assert headway_command(["preset", "validate", str(path)]) == 0
    assert "ok" in capsys.readouterr().out


def test_another_model_answers_what_the_first_refuses(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    """Two run and two wait at the large model; of the other six, the two that may not be diverted are refused."""
    answered = asyncio.run(load("another_model").main())
    assert answered == {"large": 4, "small": 4, "refused (queue_full)": 2}
    assert "small: 4" in capsys.readouterr().out


def test_the_preset_for_another_model_can_divert() -> None:
    """The preset is valid without a warning, and its ladder has the rung wherever another model is configured."""
    preset = load_preset(EXAMPLES / "divert.toml")
    assert lint(preset) == []
    assert Rung.DIVERT in usable_rungs(preset, fallback_model=True)
    assert {name for name, terms in preset.classes.items() if terms.may_divert} == {"normal", "batch"}
