"""The operator's own checks: a message refuses one request, and a check that fails refuses it, too."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from starlette.types import Message

from headway.admission.request_context import RequestContext
from headway.api_errors import BadRequest
from headway.errors import HeadwayError
from headway.http.inference.operator_code import MAX_MESSAGE_CHARS, MAX_THREADS, CallFailedError, OperatorCode
from headway.http.inference.request_rules import RequestRules
from headway.http.inference.validator import CheckedAnswer, ResultCheck, Validator

PATH = "/v1/chat/completions"
CONTEXT = RequestContext(class_name="normal", tenant="acme")
SECRET = "canary-of-a-prompt"
LONG_S = 60.0


def validator(function: Callable[..., object], timeout_s: float = LONG_S) -> Validator:
    """A validator with this function."""
    return Validator(OperatorCode("checks:requests", function, timeout_s))


async def refusal(function: Callable[..., object], body: Any, timeout_s: float = LONG_S) -> BadRequest:
    """The refusal of a request with this body."""
    raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    with pytest.raises(BadRequest) as caught:
        await validator(function, timeout_s).check(PATH, raw, CONTEXT)
    return caught.value


async def test_it_is_called_with_path_body_tenant_and_class() -> None:
    """In another thread; None passes."""
    calls: list[tuple[Any, ...]] = []

    def function(*arguments: Any) -> None:
        calls.append((*arguments, threading.current_thread() is threading.main_thread()))

    await validator(function).check(PATH, b'{"a": NaN, "n": 1, "n": 2}', CONTEXT)
    (path, body, tenant, class_name, in_main_thread) = calls[0]
    assert (path, body["n"], tenant, class_name, in_main_thread) == (PATH, 2, "acme", "normal", False)


async def test_a_request_of_another_kind_is_an_empty_object() -> None:
    """A form, say."""
    calls: list[object] = []
    await validator(lambda path, body, *_: calls.append(body)).check("/v1/audio/transcriptions", None, CONTEXT)
    assert calls == [{}]


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"null", b'"text"', b"[" * 100_000])
async def test_what_is_no_object_is_left_to_vllm(body: bytes) -> None:
    """vLLM refuses the body, and the function is not called."""
    await validator(lambda *_: "never called").check(PATH, body, CONTEXT)


def raising(error: BaseException) -> Callable[..., object]:
    """A function that raises it."""

    def function(*_: object) -> object:
        raise error

    return function


@pytest.mark.parametrize(
    "function", [lambda *_: "too loud", raising(ValueError("too loud"))], ids=["returned", "raised"]
)
async def test_a_message_refuses_the_request(function: Callable[..., object]) -> None:
    """400 with the operator's own words."""
    refused = await refusal(function, {})
    assert (refused.status, refused.code, refused.message) == (400, "invalid_request", "too loud")


@pytest.mark.parametrize("function", [lambda *_: "", raising(ValueError())], ids=["returned", "raised"])
async def test_an_empty_message_refuses_all_the_same(function: Callable[..., object]) -> None:
    """There are words for it."""
    refused = await refusal(function, {})
    assert (refused.status, refused.message) == (400, "refused by a check of this server")


async def test_a_long_message_is_cut() -> None:
    """An answer is not as long as a prompt."""
    assert len((await refusal(lambda *_: "x" * 100_000, {})).message) == MAX_MESSAGE_CHARS


class BadWordsError(ValueError):
    """An error that fails when it is read."""

    def __str__(self) -> str:
        raise RuntimeError(SECRET)


@pytest.mark.parametrize(
    "function",
    [
        raising(KeyError(SECRET)), raising(SystemExit(SECRET)), raising(RecursionError()), raising(BadWordsError()),
        lambda *_: True, lambda *_: [SECRET],
    ],
    ids=["error", "exit", "recursion", "unreadable", "true", "list"],
)  # fmt: skip
async def test_a_function_that_fails_refuses_that_request_alone(
    function: Callable[..., object], caplog: pytest.LogCaptureFixture
) -> None:
    """500, one line in the log, and nothing of the body in either. The next request is checked again."""
    wrong = True
    checked = validator(lambda *arguments: function(*arguments) if wrong else None)
    with caplog.at_level(logging.DEBUG), pytest.raises(BadRequest) as caught:
        await checked.check(PATH, json.dumps({"prompt": SECRET}).encode(), CONTEXT)
    assert (caught.value.status, caught.value.code) == (500, "validator_failed")
    assert SECRET not in caught.value.message + caplog.text
    assert [record.levelname for record in caplog.records if record.name.startswith("headway")] == ["ERROR"]
    assert "checks:requests failed" in caplog.text
    wrong = False
    await checked.check(PATH, b"{}", CONTEXT)


async def test_a_function_that_takes_too_long_is_not_waited_for() -> None:
    """500 after the limit, and the loop went on meanwhile; what it says later is heard by nobody."""
    release, ended = threading.Event(), threading.Event()

    def function(*_: object) -> str:
        release.wait()
        ended.set()
        return "too late"

    refused = await refusal(function, {}, timeout_s=0.02)
    assert (refused.status, refused.code) == (500, "validator_failed")
    release.set()
    assert await asyncio.to_thread(ended.wait, LONG_S)


async def test_calls_that_hang_refuse_later_ones_and_hold_no_more_threads() -> None:
    """Nothing passes unchecked. Once they return, requests are checked again; those that were refused are not."""
    begun, release, before = threading.Semaphore(0), threading.Event(), set(threading.enumerate())
    calls: list[object] = []

    def function(path: str, body: dict[str, Any], *_: object) -> None:
        calls.append(body)
        begun.release()
        if body.get("hangs"):
            release.wait()

    code = OperatorCode("checks:requests", function, LONG_S)
    hanging = [asyncio.create_task(Validator(code).check(PATH, b'{"hangs": 1}', CONTEXT)) for _ in range(MAX_THREADS)]
    for _ in hanging:
        assert await asyncio.to_thread(begun.acquire, timeout=LONG_S)
    code._timeout_s = 0.02
    for _ in range(3):
        with pytest.raises(BadRequest) as caught:
            await Validator(code).check(PATH, b"{}", CONTEXT)
        assert caught.value.code == "validator_failed"
    names = [one.name for one in set(threading.enumerate()) - before if one.name.startswith("headway")]
    assert len(names) == MAX_THREADS
    release.set()
    await asyncio.gather(*hanging)
    code._timeout_s = LONG_S
    await Validator(code).check(PATH, b'{"next": 1}', CONTEXT)
    assert calls == [{"hangs": 1}] * MAX_THREADS + [{"next": 1}]


async def test_a_request_that_is_cancelled_leaves_nothing_behind() -> None:
    """Its client has disconnected."""
    begun, release, ended = threading.Event(), threading.Event(), threading.Event()

    def function() -> None:
        begun.set()
        release.wait()
        ended.set()

    code = OperatorCode("checks:requests", function, LONG_S)
    task = asyncio.create_task(code.complaint(function))
    assert await asyncio.to_thread(begun.wait, LONG_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
    assert await asyncio.to_thread(ended.wait, LONG_S)
    assert await code.complaint(lambda: "next") == "next"


async def test_an_unexpected_result_is_named_by_its_type() -> None:
    """The log says what is wrong with the function."""
    with pytest.raises(CallFailedError, match=r"^the function returned int, not a message or None$"):
        await OperatorCode("checks:requests", int, LONG_S).complaint(lambda: 7)


# ------------------------------------------------------------------ answers


class Sent(list[Message]):
    """What the client got."""

    async def send(self, message: Message) -> None:
        self.append(message)

    @property
    def status(self) -> int:
        return int(self[0]["status"])

    @property
    def body(self) -> bytes:
        return b"".join(one.get("body", b"") for one in self[1:])


async def answered(
    function: Callable[..., object], *pieces: bytes, status: int = 200, kind: bytes = b"application/json"
) -> Sent:
    """What the client gets of an answer in these pieces."""
    sent = Sent()
    checked = CheckedAnswer(ResultCheck(OperatorCode("checks:results", function, LONG_S)), PATH, CONTEXT, sent.send)
    start = {"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]}
    await checked.send(start)
    for at, piece in enumerate(pieces, 1):
        await checked.send({"type": "http.response.body", "body": piece, "more_body": at < len(pieces)})
    return sent


@pytest.mark.parametrize("kind", [b"application/json", b"application/json; charset=utf-8", b"application/x+json"])
async def test_an_answer_that_passes_arrives_as_it_is(kind: bytes) -> None:
    """Its headers, and its bytes in one piece; the function gets the parsed answer."""
    calls: list[tuple[Any, ...]] = []
    sent = await answered(lambda *arguments: calls.append(arguments), b'{"a": ', b"1}", kind=kind)
    assert (sent.status, sent.body, sent[0]["headers"]) == (200, b'{"a": 1}', [(b"content-type", kind)])
    assert calls == [(PATH, {"a": 1}, "acme", "normal")]


async def test_an_answer_that_is_refused_is_an_error_of_its_request() -> None:
    """502 with the operator's words, in place of the answer."""
    sent = await answered(lambda *_: "no such city", b'{"secret": 1}')
    error = json.loads(sent.body)["error"]
    assert (sent.status, error["code"], error["message"]) == (502, "result_invalid", "no such city")
    assert b"secret" not in sent.body


async def test_an_answer_whose_check_fails_does_not_pass() -> None:
    """500: it was not checked."""
    sent = await answered(raising(KeyError()), b'{"secret": 1}')
    assert (sent.status, json.loads(sent.body)["error"]["code"]) == (500, "validator_failed")


async def test_an_answer_that_is_no_json_does_not_pass() -> None:
    """Whatever it says of itself."""
    assert (await answered(lambda *_: None, b"{")).status == 502


@pytest.mark.parametrize(
    ("status", "kind"), [(200, b"audio/wav"), (404, b"application/json"), (400, b"text/event-stream")]
)
async def test_what_is_not_checked_passes_as_it_comes(status: int, kind: bytes) -> None:
    """Other types, and errors."""
    sent = await answered(lambda *_: "never called", b"data: 1\n\n", b"data: 2\n\n", status=status, kind=kind)
    assert (sent.status, [one.get("body") for one in sent[1:]]) == (status, [b"data: 1\n\n", b"data: 2\n\n"])


EVENTS = (b'data: {"a": 1}\n\n', b'data: {"a": "data: [DONE]"}\n\n', b"data: [DONE]\n\n", b"")


async def test_a_stream_is_checked_at_its_end() -> None:
    """Its events arrive one by one, as they were; the function gets their objects once, before the last one leaves."""
    calls: list[tuple[Any, ...]] = []
    sent = await answered(lambda *arguments: calls.append(arguments), *EVENTS, kind=b"text/event-stream; charset=utf-8")
    assert [one["body"] for one in sent[1:]] == list(EVENTS)
    assert calls == [(PATH, {"events": [{"a": 1}, {"a": "data: [DONE]"}]}, "acme", "normal")]


@pytest.mark.parametrize(
    ("function", "code"),
    [(lambda *_: "no such city", "result_invalid"), (raising(KeyError()), "validator_failed")],
    ids=["refused", "failed"],
)
@pytest.mark.parametrize("pieces", [EVENTS, (b'data: {"a": 1}\n\n',)], ids=["with its end", "cut off"])
async def test_a_stream_that_is_refused_ends_with_an_error_event(
    function: Callable[..., object], code: str, pieces: tuple[bytes, ...]
) -> None:
    """In the place of its last event, and nothing comes after it."""
    sent = await answered(function, *pieces, kind=b"text/event-stream")
    *_, error, done, rest = sent.body.split(b"\n\n")
    assert json.loads(error.removeprefix(b"data: "))["error"]["code"] == code
    assert (done, rest, sent.body.count(b"data: [DONE]\n\n")) == (b"data: [DONE]", b"", 1)
    assert [one["more_body"] for one in sent[1:]].count(False) == 1


async def test_a_stream_whose_events_are_no_json_does_not_pass() -> None:
    """Whatever they say."""
    sent = await answered(lambda *_: None, b"data: {\n\n", b"data: [DONE]\n\n", b"", kind=b"text/event-stream")
    assert b"result_invalid" in sent.body


async def test_a_stream_longer_than_its_bound_ends_there() -> None:
    """One that just fits is checked. Of the other no more is held, none of the rest sent, and its request is ended."""
    event, calls, ended = b'data: {"a": 1}\n\n', list[Any](), list[int]()
    for events, most_bytes in ((4, 4 * len(event)), (5, 4 * len(event))):
        sent, context = Sent(), RequestContext(class_name="normal", on_given_up=lambda: ended.append(1))
        check = ResultCheck(OperatorCode("checks:results", lambda *given: calls.append(given), LONG_S), most_bytes)
        checked = CheckedAnswer(check, PATH, context, sent.send)
        headers = [(b"content-type", b"text/event-stream")]
        await checked.send({"type": "http.response.start", "status": 200, "headers": headers})
        for number in range(events):
            await checked.send({"type": "http.response.body", "body": event, "more_body": number < events - 1})
        assert checked._parts == []
        if events == 4:
            assert (sent.body, len(calls), context.calls_failed, ended) == (4 * event, 1, 0, [])
    await checked.send({"type": "http.response.body", "body": event, "more_body": False})
    assert sent.body.startswith(4 * event + b'data: {"error"')
    assert (sent.body.count(b"result_too_long"), sent.body.count(event), len(calls)) == (1, 4, 1)
    assert (context.calls_failed, ended, [one["more_body"] for one in sent[1:]].count(False)) == (1, [1], 1)


# ------------------------------------------------------------------ the settings


@pytest.fixture
def checks() -> Iterator[ModuleType]:
    """A module of the operator's."""
    module = ModuleType("operators_checks")

    async def later(*_: object) -> None: ...

    module.__dict__.update(good=lambda *_: "refused", later=later, number=7)
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


async def test_both_functions_are_named_by_an_import_path(checks: ModuleType) -> None:
    """And called from then on."""
    rules = RequestRules.from_environment(
        {
            "HEADWAY_VALIDATOR": "operators_checks:good",
            "HEADWAY_CHECK_RESULT": "operators_checks:good",
            "HEADWAY_CHECK_RESULT_BYTES": "70000",
            "HEADWAY_VALIDATOR_TIMEOUT_S": "30",
        }
    )
    assert rules.validator is not None
    assert rules.result_check is not None
    assert rules.result_check.most_bytes == 70_000
    with pytest.raises(BadRequest, match=r"^refused$"):
        await rules.validator.check(PATH, b"{}", CONTEXT)
    with pytest.raises(BadRequest, match=r"^refused$"):
        await rules.result_check.check(PATH, b"{}", CONTEXT)


@pytest.mark.parametrize("variable", ["HEADWAY_VALIDATOR", "HEADWAY_CHECK_RESULT"])
@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("operators_checks", "'operators_checks' is not of the form package.module:function"),
        ("operators-checks:good", "is not of the form package.module:function"),
        ("operators_checks:", "is not of the form package.module:function"),
        ("operators_checks.missing:good", "operators_checks.missing cannot be imported"),
        ("operators_checks:missing", "operators_checks has no missing"),
        ("operators_checks:number", "operators_checks:number is no function that is not async"),
        ("operators_checks:later", "operators_checks:later is no function that is not async; define one"),
    ],
)
def test_a_wrong_path_is_one_line_at_the_start(checks: ModuleType, variable: str, path: str, says: str) -> None:
    """The line names the variable."""
    with pytest.raises(HeadwayError, match=f"^{variable}: .*{says}") as caught:
        RequestRules.from_environment({variable: path})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("value", "expected"), [("drop", False), ("refuse", True), ("", False)])
def test_priorities_are_dropped_or_refused(value: str, expected: bool) -> None:
    """As the operator says."""
    assert RequestRules.from_environment({"HEADWAY_CLIENT_PRIORITY": value}).refuse_priority is expected
