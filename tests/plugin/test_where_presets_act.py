"""Where each part of a preset acts: every setting in every place, by what it changes there.

A scene is played twice, with two values of one setting. Where the table of ``headway_policies.preset.parts`` says that
the part acts, what can be seen from outside must differ; elsewhere nothing may, and a line must say so.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import re
from typing import Any

import pytest
from preset_cases import CASES, preset, presets
from preset_machine import Asked, Engine, Machine, Scene
from preset_places import play
from tiers import LONG
from virtual_time import on_virtual_time

import headway
from headway import Batcher
from headway.audit import Caller
from headway.engine import PlainAdapter
from headway.engine.fake import FakeParams
from headway.engine_service import EngineService
from headway.operator import PresetCatalogue
from headway_policies import Preset, PriorityClass
from headway_policies.preset import LACKS, Ability, Place, no_effect
from headway_policies.preset.parts import PARTS, Part
from headway_simulator import EngineModel, Request, simulate

PART_OF = {key: part for part in PARTS for key in part.keys}
#: Of each part one setting, which in the short form stands for all of it outside simulations.
OF_EACH_PART = {part.keys[0] for part in PARTS if part.keys}


def is_tried(place: Place, key: str) -> bool:
    """In the short form every setting in simulations, one of each part in ``headway serve``, and elsewhere those of
    them that have no effect there. A server of plain vLLM is ``headway serve`` without its replacer; what has no effect
    for that reason alone is not tried again behind ``headway route``.
    """
    if place is Place.SIMULATE:
        return True
    if place is Place.SERVE:
        return LONG or key in OF_EACH_PART
    if PART_OF[key].lacks(LACKS[place]) is None:
        return LONG and place is not Place.PLAIN
    return LONG or (
        key in OF_EACH_PART and (place is not Place.ROUTE or PART_OF[key].lacks(LACKS[Place.PLAIN]) is None)
    )


TRIED = [(place, key) for place in LACKS for key in CASES if is_tried(place, key)]
#: A program that gives ``headway.wrap`` an engine and nothing else.
BARE = LACKS[Place.WRAP] | {
    Ability.STEPS, Ability.REPLACER, Ability.OTHER_MODEL, Ability.WARMUP, Ability.STAGES, Ability.CACHES,
    Ability.PROGRESS, Ability.SHAPES,
}  # fmt: skip

BARE_KEYS = [
    key for key, part in PART_OF.items() if part.lacks(BARE - {Ability.HTTP}) and (LONG or key in OF_EACH_PART)
]


def keys_of(model: Any, table: str = "") -> list[str]:
    """The dotted keys of all settings."""
    found = []
    for name, field in model.model_fields.items():
        inner = PriorityClass if name == "classes" else field.annotation
        path = f"{table}{name}" + (".*" if name == "classes" else "")
        found += keys_of(inner, f"{path}.") if hasattr(inner, "model_fields") else [path]
    return found


def test_every_setting_is_of_one_part_and_has_a_scene() -> None:
    """A new one is in the table, and is tried, or this fails."""
    settings = sorted(set(keys_of(Preset)) - {"name", "description"})
    assert sorted(key for part in PARTS for key in part.keys) == settings == sorted(CASES)


@pytest.mark.slow
@pytest.mark.parametrize(("place", "key"), TRIED, ids=[f"{key} in {place}" for place, key in TRIED])
def test_a_setting_acts_where_the_table_says_so(place: Place, key: str) -> None:
    """And nowhere else, which a line says."""
    # the requests of a warm-up of a program are made by its own function here
    check(key, place, LACKS[place] | ({Ability.STAGES} if place is Place.WRAP else set()))


@pytest.mark.slow
@pytest.mark.parametrize("key", BARE_KEYS)
def test_a_setting_has_no_effect_in_a_program_that_gives_nothing_it_needs(key: str) -> None:
    """Which a line says."""
    check(key, Place.WRAP, BARE, bare=True)


def check(key: str, place: Place, lacking: frozenset[Ability], *, bare: bool = False) -> None:
    """Play the scene of a setting with both of its values."""
    part, scene, chosen = PART_OF[key], CASES[key].scene, presets(key)
    (before, said), (after, says) = (play(place, one, scene, bare=bare) for one in chosen)
    missing = part.lacks(lacking)
    assert (before != after) is (missing is None)
    if missing is not None:
        lines = [no_effect(one, lacking).get(missing, "") for one in chosen]
        assert any(part.name in line for line in lines), "no line says so"
        if place is not Place.SIMULATE:
            for line, in_status in zip(lines, (said, says), strict=True):
                assert not line or line in in_status


@pytest.mark.parametrize("place", [Place.SERVE, Place.ROUTE, Place.WRAP], ids=lambda place: place.name.lower())
def test_the_same_scene_shows_the_same(place: Place) -> None:
    """Else a difference would prove nothing."""
    for key in ("limit.policy", "recovery.probation_s") if LONG else ("limit.policy",):
        one = presets(key)[1]
        assert play(place, one, CASES[key].scene) == play(place, one, CASES[key].scene)


@on_virtual_time
async def test_a_switch_and_pythons_collector_act_where_the_table_says_so() -> None:
    """Both are no settings. A program's collector is its own; a simulation has the switches that it is given."""
    for place in (Place.SERVE, Place.WRAP):
        before = gc.get_threshold()
        machine = Machine(Scene(()), Engine)
        engine: Any = machine.engine()
        narrow, wide = (
            preset(),
            preset({"batching.seats": 4}).model_copy(update={"name": "wide"}),
        )
        catalogue = PresetCatalogue()
        for one in (narrow, wide):
            catalogue.include(one)
        if place is Place.SERVE:
            service = EngineService(engine, PlainAdapter(), narrow, catalogue)
            await service.serve()
        else:
            headway.wrap(engine, narrow).headway.catalogue.include(wide)
        asked = [asyncio.create_task(_ask(engine, Asked(0.0, f"a{at}"))) for at in range(4)]
        await asyncio.sleep(0.5)
        assert (gc.get_threshold() != before) is (place is Place.SERVE)
        await engine.headway.switch("wide", expected_revision=None, caller=Caller("test", "admin", "-"))
        await asyncio.gather(*asked)
        assert engine.most_running > 1
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)
    requests = [Request(0.0, "normal", 8, 4)] * 6
    result = simulate(requests, preset(), EngineModel(), switches=[(0.01, wide)])
    assert max(moment.running for moment in result.moments) > 1


async def _ask(engine: Any, asked: Asked) -> None:
    async for _ in engine.generate(asked.prompt, FakeParams(asked.tokens), asked.name):
        pass


@pytest.mark.parametrize("place", [Place.PLAIN, Place.ROUTE], ids=lambda place: place.name.lower())
def test_the_log_says_at_the_start_what_has_no_effect(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """A warning where a setting was stated, else in passing; once for each reason."""
    caplog.set_level(logging.INFO, "headway.engine_service")
    _, lines = play(place, preset({"memory.recycle_every_s": 60.0}), Scene(()))
    said = {one.getMessage(): one.levelname for one in caplog.records if "no effect here" in one.getMessage()}
    warned = f"preset tried: recycle ([memory] recycle_every_s): no effect here: {Ability.REPLACER}"
    assert said.pop(warned) == "WARNING"
    others = [line for line in lines if not line.endswith(Ability.REPLACER)]
    assert said == {f"preset tried: {line}": "INFO" for line in others}


# ---------------------------------------------------------------------- a batcher, which has arguments


@pytest.mark.parametrize("part", [part for part in PARTS if part.batcher is not None], ids=lambda part: part.name)
def test_a_batcher_has_the_argument_that_stands_in_place_of_a_part(part: Part) -> None:
    """The effect of each is tried in tests/plugin/batcher."""
    known = {*inspect.signature(Batcher).parameters, *inspect.signature(Batcher.submit).parameters}
    assert set(re.findall(r"`(\w+)`", part.batcher or "")) <= known | {Batcher.warm_up.__name__}
