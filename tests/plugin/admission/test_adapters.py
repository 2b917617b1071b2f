"""Requests of LoRA adapters before an engine that says how many different ones it runs at once."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from engines import ServingEngine
from gateway_calls import behind_a_gate, read
from virtual_time import on_virtual_time

from headway.admission import ModelNames, model_names
from headway.admission.request_context import REQUEST_CONTEXT, RequestContext
from headway.openai.asked import Asked, read_asked
from headway.openai.routes import route_at
from headway.operator.control import Control
from headway_policies import Ending


class Bounded(ServingEngine):
    """Runs one adapter at a time."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.max_loras = 1


def asked(engine: Any, name: str, model: str | None) -> asyncio.Task[int]:
    """A request of a client whose body names a model."""

    async def whole() -> int:
        REQUEST_CONTEXT.set(context := RequestContext(asked=Asked(model=model)))
        tokens = await read(engine, name)
        assert context.permit is not None
        context.permit.leave(Ending.COMPLETED)
        return tokens

    return asyncio.create_task(whole())


def running(control: Control) -> list[str | None]:
    """The adapters of the requests that run."""
    return [one["adapter"] for one in control.gateway.gate.dump()["running"]]


@on_virtual_time
async def test_calls_of_one_adapter_too_many_wait_for_a_place() -> None:
    """Those of the adapter that runs, and of the model itself, pass them; the dump says which adapter each needs."""
    engine, control = behind_a_gate(8, Bounded(step_s=1.0))
    names = ("one", "two", None, "one", "two")
    calls = [
        asyncio.create_task(
            read(engine, f"{place}", **({"lora_request": SimpleNamespace(lora_name=name)} if name else {}))
        )
        for place, name in enumerate(names)
    ]
    await asyncio.sleep(1.5)
    assert engine.started == ["0", "2", "3"]
    assert [one["adapter"] for one in control.gateway.gate.dump()["waiting"]] == ["two", "two"]
    assert control.status().limit.reason == "adapter"
    assert await asyncio.gather(*calls) == [3] * len(names)
    assert engine.started == ["0", "2", "3", "1", "4"]


@on_virtual_time
@pytest.mark.parametrize(
    ("engine", "model", "adapter"),
    [
        (Bounded, "mine", None), (Bounded, "alias", None), (Bounded, None, None), (Bounded, "", None),
        (Bounded, "other", "other"), (Bounded, "made up", None), (ServingEngine, "other", None),
    ],
)  # fmt: skip
async def test_the_adapter_of_a_request_is_the_model_that_its_body_names(
    engine: type[ServingEngine], model: str | None, adapter: str | None
) -> None:
    """None where that is a name of the model itself, or of nothing, or where the engine says no bound."""
    served, control = behind_a_gate(8, engine(step_s=1.0))
    if control.gateway.names is not None:
        control.gateway.names = ModelNames({"mine", "alias"}, {"other"})
    call = asked(served, "a", model)
    await asyncio.sleep(0.5)
    assert running(control) == [adapter]
    await call


@on_virtual_time
async def test_names_that_clients_make_up_take_no_place_of_an_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    """They pass, to be told that there is no such model. An adapter that was loaded since has its name once an answer
    of it has begun; so many are learnt, and no more."""
    monkeypatch.setattr(model_names, "MOST", 2)
    engine, control = behind_a_gate(8, Bounded(step_s=1.0))
    control.gateway.names = ModelNames({"mine"}, {"one"})
    calls = [asked(engine, name, name) for name in ("one", "loaded", "made up")]
    await asyncio.sleep(0.5)
    assert running(control) == ["one", None, None]
    await asyncio.gather(*calls)
    later = [asked(engine, f"{name} again", name) for name in ("loaded", "made up", "mine")]
    await asyncio.sleep(0.5)
    assert running(control) == ["loaded", None, None]
    await asyncio.gather(*later)


@pytest.mark.parametrize(
    ("value", "model"),
    [
        (b'"mine"', "mine"),
        (b'"m\\u0069ne"', "mine"),
        (b"7", None),
        (b"null", None),
        (b'"' + b"x" * 999 + b'"', "x" * 256),
    ],
)
def test_the_name_of_a_model_is_read_as_vllm_reads_it(value: bytes, model: str | None) -> None:
    """A text, of which no more is kept than a name has; anything else names none."""
    assert read_asked(route_at("/v1/completions"), b'{"model": ' + value + b"}").model == model
