"""Log lines without the content of requests: no text that a client sent or the model wrote is in them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from fractions import Fraction
from typing import Any

import pytest
from cost_growth import assert_linear
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import Refused
from headway.logs import ContentRecords, ContentRules
from headway.logs.content_records import Loggers
from headway.logs.hidden import Hidden, shown
from headway.logs.tracebacks import blames_client, traceback_without_messages
from headway.tracing import CURRENT_REQUEST, CurrentRequest
from headway_policies import Reason

SECRET = "what-the-client-sent"
RULES = ContentRules(
    arguments=Loggers("path", but=("path.start",)),
    exceptions=Loggers("server"),
    lines=frozenset({"pre-processing failed: %s"}),
    formatted=Loggers("path.parser"),
    refusals=Loggers("path.routes"),
    escaped=Loggers("own"),
)


class Colour(Enum):
    """A word of the code."""

    RED = "red"


class Untouchable:
    """Converting it to text is an error."""

    def __str__(self) -> str:
        raise AssertionError

    __repr__ = __str__


def line(logger: str, message: Any, *arguments: object, error: BaseException | None = None) -> logging.LogRecord:
    """A record of level ERROR as ``logging`` makes it, with an exception that was raised."""
    make = ContentRecords(logging.LogRecord, RULES)
    exc_info = None
    if error is not None:
        try:
            raise error
        except BaseException as raised:
            exc_info = (type(raised), raised, raised.__traceback__)
    return make(logger, logging.ERROR, "file.py", 7, message, arguments, exc_info)


def printed(record: logging.LogRecord) -> str:
    """As the standard formatter prints it."""
    return logging.Formatter("%(levelname)s %(message)s").format(record)


# ---------------------------------------------------------------------- which loggers


@pytest.mark.parametrize(
    ("name", "hidden"),
    [("path", True), ("path.a.b", True), ("pathway", False), ("path.start", False), ("path.start.a", False),
     ("path.starter", True), ("other.path", False), ("", False)],
)  # fmt: skip
def test_a_logger_stands_for_those_below_it(name: str, hidden: bool) -> None:
    """And for no other whose name begins so."""
    assert (name in RULES.arguments) is hidden
    assert (SECRET in printed(line(name, "Prompt: %s", SECRET))) is not hidden


def test_a_record_of_no_logger_is_made_as_well() -> None:
    """``logging.makeLogRecord`` calls the factory without a name."""
    before = logging.getLogRecordFactory()
    logging.setLogRecordFactory(ContentRecords(before, RULES))
    try:
        assert logging.makeLogRecord({"msg": "a"}).getMessage() == "a"
    finally:
        logging.setLogRecordFactory(before)


# ---------------------------------------------------------------------- arguments


@pytest.mark.parametrize("value", [None, True, 7, 0.5, Fraction(1, 3), Colour.RED, "", Refused(Reason.QUEUE_FULL, 1)])
def test_what_cannot_be_content_is_shown(value: object) -> None:
    """Numbers, words of the code and Headway's refusals."""
    assert shown(value) is value


@pytest.mark.parametrize(
    "value",
    [
        "chatcmpl-0123456789abcdef0123456789abcdef",
        "cmpl-order-66-0123456789abcdef-0-8badf00d",
        "resp_0123456789abcdef0123456789abcdef",
        "generate-tokens-0123456789abcdef",
        "chatcmpl-0123456789abcdef~2",
        "chatcmpl-0123456789abcdef0123456789abcdef_0,chatcmpl-0123456789abcdef0123456789abcdef_1",
    ],
)
def test_ids_are_shown(value: str) -> None:
    """As vLLM and the gate make them, one or several."""
    assert shown(value) == value


@pytest.mark.parametrize(
    ("value", "instead"),
    [
        (SECRET, "[20 characters hidden]"),
        ("0123456789abcdef0123456789abcdef", "[32 characters hidden]"),
        ("sk-0123456789abcdef0123456789abcdef", "[35 characters hidden]"),
        (f"cmpl-{SECRET}", "[25 characters hidden]"),
        (f"cmpl-0123456789abcdef {SECRET}", "[42 characters hidden]"),
        ([1, 2, 3], "[list hidden]"),
        ({"a": 1}, "[dict hidden]"),
        (b"abc", "[bytes hidden]"),
        (ValueError(SECRET), "[ValueError hidden]"),
        (Untouchable(), "[Untouchable hidden]"),
        (Hidden("list"), "[list hidden]"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:12],
)
def test_all_else_is_hidden(value: object, instead: str) -> None:
    """The kind of the hidden value is said, and how long a text was."""
    assert str(shown(value)) == repr(shown(value)) == instead


def test_the_ids_of_the_current_request_are_shown() -> None:
    """Whatever vLLM puts around them; a text that has more than an id is not one."""
    token = CURRENT_REQUEST.set(CurrentRequest("a", "a-1234", None))
    try:
        assert shown("new-route-a-1234_0") == "new-route-a-1234_0"
        assert isinstance(shown('{"id": "a-1234"}'), Hidden)
        assert isinstance(shown("say a-1234"), Hidden)
    finally:
        CURRENT_REQUEST.reset(token)


@given(st.text(min_size=1), st.sampled_from(["%s", "%r", "%.80s", "%-40s"]))
def test_no_text_of_a_client_is_in_a_line(text: str, form: str) -> None:
    """The line keeps its words, and its place in the code."""
    record = line("path.a", f"Received {form}, %d tokens", text, 3)
    size = f"[{len(text)} characters hidden]"
    assert record.getMessage().replace(" ", "") == f"Received{size},3tokens".replace(" ", "")
    assert (record.filename, record.lineno) == ("file.py", 7)


@pytest.mark.parametrize("unit", ["cmpl-", "a", "f", "0123456789abcdef-", "cmpl-0123456789abcdef,", "cmpl-f-f", ","])
def test_to_look_for_ids_costs_no_more_than_a_text_is_long(unit: str) -> None:
    """Up to the bound beyond which a text is not looked at."""

    def work(size: int) -> Callable[[], object]:
        text = (unit * size)[:size] + " "
        return lambda: shown(text)

    assert_linear(work, 120)


@pytest.mark.parametrize(
    ("message", "arguments", "written"),
    [
        ("%(who)s: %(count)d", [{"who": SECRET, "count": 2}], "[20 characters hidden]: 2"),
        ("Response: %s", [{SECRET: SECRET}], "Response: [dict hidden]"),
        (ValueError(SECRET), [], "[ValueError hidden]"),
    ],
    ids=["named arguments", "a mapping alone", "an object in place of a message"],
)
def test_arguments_of_other_forms_are_hidden_as_well(message: Any, arguments: list[Any], written: str) -> None:
    """A mapping with its keys; ``log.error(error)`` has no text of the code."""
    assert line("path", message, *arguments).getMessage() == written


@pytest.mark.parametrize("message", [f"Error in the call: {SECRET}", f"Arguments '{SECRET}' have no end"])
def test_a_message_that_was_formatted_before_is_cut(message: str) -> None:
    """Only in the loggers that do so; a plain sentence is kept."""
    text = line("path.parser", message).getMessage()
    assert text == message.partition(":")[0].partition("'")[0].rstrip() + " [the rest hidden]"
    assert line("path.parser", "Not enough tokens").getMessage() == "Not enough tokens"
    assert line("path.parser", "state: %d", 3).getMessage() == "state: 3"


# ---------------------------------------------------------------------- exceptions


class GracefulHTTPError(Exception):
    """Named as vLLM's base of refusals is."""


def raised(make: Callable[[], None]) -> BaseException:
    """What the function raises."""
    try:
        make()
    except BaseException as error:
        return error
    raise AssertionError


def chained() -> None:
    """An error with a cause, which came while another was handled; each message has content."""
    try:
        try:
            raise KeyError(SECRET)
        except KeyError:
            raise ValueError(SECRET)  # noqa: B904 - its context is what is tested
    except ValueError as error:
        raise RuntimeError(SECRET) from error


@pytest.mark.parametrize("logger", ["path.a", "server"])
def test_a_traceback_has_no_messages(logger: str) -> None:
    """The kinds of the errors and the lines of code are kept, in the order in which they came."""
    text = printed(line(logger, "it failed", error=raised(chained)))
    assert SECRET not in text
    parts = ("builtins.KeyError: [message hidden]", "During handling", "builtins.ValueError", "the direct cause",
             "builtins.RuntimeError")  # fmt: skip
    at = [text.index(part) for part in parts]
    assert at == sorted(at)
    assert "in chained" in text
    assert text.startswith("ERROR it failed\nTraceback (most recent call last):")


def test_an_error_of_another_logger_is_shown() -> None:
    """An operator reads there that memory ran out; but for the lines that are named."""
    assert SECRET in printed(line("engine", "it failed", error=RuntimeError(SECRET)))
    assert SECRET not in printed(line("engine", "pre-processing failed: %s", "a", error=RuntimeError(SECRET)))


@pytest.mark.parametrize("error", [ValueError(SECRET), GracefulHTTPError(SECRET)], ids=type)
def test_a_refusal_is_one_line(error: Exception) -> None:
    """No traceback, and no alarm: nothing is wrong with the server."""
    record = line("path.routes", "Error in create_messages: %s", error, error=error)
    assert printed(record) == f"INFO Error in create_messages: [{type(error).__name__} hidden]"
    assert record.levelno == logging.INFO


def test_a_fault_of_the_server_keeps_its_traceback() -> None:
    """And its level."""
    text = printed(line("path.routes", "Error: %s", "a", error=RuntimeError(SECRET)))
    assert text.startswith("ERROR Error: [1 characters hidden]\nTraceback")
    assert SECRET not in text


def test_the_reason_of_a_refusal_is_shown() -> None:
    """The reason is Headway's own sentence."""

    class Ours(Refused, GracefulHTTPError):
        """As the adapter makes it."""

    refused = Ours(Reason.QUEUE_FULL, 3)
    text = printed(line("path.routes", "Error: %s", refused, error=refused))
    assert text == "INFO Error: The queue is full. Try again in 3 s. (queue_full)"


def test_the_text_of_an_exception_in_a_message_is_hidden() -> None:
    """asyncio prints the error of a task that nobody waited for."""
    error = ValueError(SECRET)
    text = printed(line("server", f"Task never retrieved: exception={error!r}, {error}", error=error))
    assert SECRET not in text
    assert text.startswith("ERROR Task never retrieved: exception=[ValueError hidden]")


def test_an_exception_that_has_no_text_is_hidden_as_well() -> None:
    """A log call never fails."""

    class Broken(Exception):
        """Its text is an error."""

        def __str__(self) -> str:
            raise RuntimeError

    assert printed(line("server", "it failed: canary", error=Broken())).startswith("ERROR [Broken hidden]\nTraceback")


def test_an_exception_without_one_is_no_traceback() -> None:
    """``log.exception`` outside of an ``except``."""
    record = ContentRecords(logging.LogRecord, RULES)("path", 40, "f", 1, "a", (), (None, None, None))
    assert printed(record) == "ERROR a"


def test_a_group_names_its_errors() -> None:
    """With no message of theirs."""
    group = raised(lambda: (_ for _ in ()).throw(ExceptionGroup(SECRET, [KeyError(SECRET), OSError(SECRET)])))
    text = traceback_without_messages(group)
    assert SECRET not in text
    assert "with builtins.KeyError" in text
    assert "with builtins.OSError" in text


def test_a_chain_is_bounded_even_when_it_is_a_circle() -> None:
    """The last eight."""
    first, last = RuntimeError("0"), RuntimeError("0")
    for number in range(100):
        after = RuntimeError(str(number))
        after.__cause__, last = last, after
    assert traceback_without_messages(last).count("RuntimeError") == 8
    first.__cause__ = second = ValueError()
    second.__cause__ = first
    assert traceback_without_messages(first).count("[message hidden]") == 2


def test_a_fault_does_not_blame_the_client() -> None:
    """By the names of the classes, and of their bases."""
    assert blames_client(UnicodeDecodeError("utf-8", b"", 0, 1, ""))  # a ValueError
    assert not blames_client(RuntimeError())


# ---------------------------------------------------------------------- lines of a client's


@pytest.mark.parametrize("text", ["a\nERROR forged", "a\x1b[31mred", "a\u2028b", "a\r\x00\x7f\x85"])
def test_a_client_writes_no_line_of_its_own(text: str) -> None:
    """In a text or in the message of an error, control characters are escaped."""
    for argument in (text, ValueError(text)):
        message = line("own.part", "no class %s", argument).getMessage()
        assert message.isprintable()
        assert message.startswith("no class a\\")


def test_what_is_printable_stays_as_it_is() -> None:
    """Also an object that is no text."""
    error, numbers = ValueError("é ü"), [1, 2]
    record = line("own", "%s %s %s", "é", error, numbers)
    assert record.args == ("é", error, numbers)
