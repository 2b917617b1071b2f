"""Validators of an application like vLLM's: a list of wrong elements costs as much as its first."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Literal

import pydantic
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypedDict

from headway.vllm_adapter.fail_fast import fail_fast


class Part(TypedDict):
    """One kind of element."""

    kind: Literal["part"]
    text: str


class Message(BaseModel):
    """Another, with a list of its own."""

    role: str
    content: list[Part] | str


class Asked(BaseModel):
    """A request whose list is a union of unions."""

    input: list[Message | Part] | list[int] | str
    stop: set[str] = set()
    pair: tuple[int, ...] = ()
    type: str = "asked"
    metadata: list[Message] = []
    default: list[int] = [1, 2]


class Other(BaseModel):
    """The request of another route."""

    messages: list[Message]


def wrapped(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """As the decorators around ``/invocations`` do: without a trace of what they wrap."""

    async def around(body: dict[str, Any]) -> Any:
        return await endpoint(body)

    return around


def application() -> FastAPI:
    """A route with a model, and one that tries several validators."""
    app = FastAPI()
    validators = [(TypeAdapter(model), "name") for model in (Asked, Other)]

    @app.post("/asked")
    async def asked(request: Asked) -> dict[str, Any]:
        return request.model_dump(mode="json")

    @app.post("/invocations")
    @wrapped
    async def invocations(body: dict[str, Any]) -> dict[str, Any]:
        errors = []
        for validator, _ in validators:
            try:
                return {"found": validator.validate_python(body).model_dump(mode="json")}
            except pydantic.ValidationError as error:
                errors.append(error.error_count())
        return {"errors": errors}

    return app


VALID = [
    {"input": [{"role": "user", "content": "a"}, {"kind": "part", "text": "b"}]},
    {"input": [{"role": "user", "content": [{"kind": "part", "text": "b"}] * 3}] * 3, "stop": ["a", "b"]},
    {"input": [1, 2, 3], "pair": [1, 2]},
    {"input": "a"},
]


def test_what_was_accepted_still_is_and_means_the_same() -> None:
    """The same answers for the same valid requests."""
    plain, changed = application(), application()
    assert fail_fast(changed) >= 3
    for body in VALID:
        for path in ("/asked", "/invocations"):
            before, after = (TestClient(app).post(path, json=body) for app in (plain, changed))
            assert (after.status_code, sorted(after.text)) == (before.status_code, sorted(before.text))
            assert after.status_code == 200


@pytest.mark.parametrize("wrong", [{}, 1.5, None, {"role": "user", "content": [{}] * 50}], ids=repr)
def test_a_thousand_wrong_elements_are_as_many_errors_as_one(wrong: Any) -> None:
    """Refused at the first, in every member of the union, on every route."""
    app = application()
    fail_fast(app)
    client = TestClient(app)
    lists = ("input", "stop", "messages", "metadata", "default")
    one, many = (dict.fromkeys(lists, [wrong] * n) for n in (1, 1000))
    answers = [client.post("/asked", json=body) for body in (one, many)]
    assert [answer.status_code for answer in answers] == [422, 422]
    numbers = [len(answer.json()["detail"]) for answer in answers]
    assert numbers[1] <= numbers[0]
    errors = [client.post("/invocations", json=body).json()["errors"] for body in (one, many)]
    assert all(after <= before for before, after in zip(*errors, strict=True))


def test_validators_that_cannot_be_changed_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Degraded modes are allowed, silent ones are not."""
    with caplog.at_level(logging.WARNING):
        assert fail_fast(SimpleNamespace(routes=[])) == 0
    assert "no request validator was found" in caplog.text
    odd = SimpleNamespace(body_field=SimpleNamespace(_type_adapter=SimpleNamespace(core_schema={"type": "unheard of"})))
    with caplog.at_level(logging.WARNING):
        assert fail_fast(SimpleNamespace(routes=[odd])) == 0
    assert "a request validator was not changed (SchemaError" in caplog.text
