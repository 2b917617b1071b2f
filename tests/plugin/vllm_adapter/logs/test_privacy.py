"""vLLM's log lines without content: which of its modules print some, and that the setting survives its set-up."""

from __future__ import annotations

import ast
import logging
import logging.config
import os
import re
import subprocess
import sys
import textwrap
import warnings
from argparse import Namespace
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import uvicorn
from vllm_source import found_source

from headway.api_server.settings import Settings
from headway.errors import HeadwayError
from headway.logs import ContentRecords
from headway.operator.status.launch import warning_lines
from headway.vllm_adapter.endpoint import HeadwayEndpoint
from headway.vllm_adapter.logs.privacy import CONTENT, RULES, hide_content, hide_engine_content, warn_of_content

SECRET = "what-the-client-sent"
SOURCE = found_source()
LEVELS = ("debug", "info", "warning", "error", "exception", "critical", "log")
LOG_CALL = re.compile(rf"^[ \t]*(?:logger|log)\.(?:{'|'.join(LEVELS)})(?:_once)?\(", re.MULTILINE)

#: Names of what a client sent or the model wrote, in the arguments of vLLM's log calls.
TELLING = {
    "api_key", "arguments", "authorization", "body", "completion", "content", "delta", "delta_text", "headers",
    "input_ids", "messages", "model_output", "new_token_ids", "output", "output_token_ids", "outputs", "prompt",
    "prompt_token_ids", "prompts", "raw_body", "request", "sampling_params", "text", "text_prompt", "token_ids",
    "tokens",
}  # fmt: skip
#: Not on the way of a request: models, kernels, start and tools.
_ELSEWHERE = (
    "benchmarks", "compilation", "device_allocator", "kernels", "model_executor", "models", "platforms",
    "third_party", "usage", "vllm_flash_attn",
)  # fmt: skip
#: Loggers outside of CONTENT with such a name in an argument, that was looked at and is none.
_NO_CONTENT = {
    "vllm.entrypoints.launchers.run_batch": "a program of its own",
    "vllm.v1.engine.core": "names of methods, counts and addresses",
    "vllm.v1.engine.core_client": "counts and addresses",
}


@pytest.fixture
def factory() -> Iterator[None]:
    """The record factory and the filters of warnings are put back afterwards."""
    before = logging.getLogRecordFactory()
    with warnings.catch_warnings():
        yield
    logging.setLogRecordFactory(before)


@pytest.fixture
def said(factory: None, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment, without a word about logs."""
    monkeypatch.delenv("HEADWAY_LOG_CONTENT", raising=False)
    monkeypatch.delenv("HEADWAY_LOG_FORMAT", raising=False)
    return monkeypatch


def record_of(name: str) -> logging.LogRecord:
    """What a logger of that name makes of a line with content."""
    return logging.getLogger(name).makeRecord(name, logging.DEBUG, "f", 1, "Prompt: %s", (SECRET,), None)


# ---------------------------------------------------------------------- setting it


def test_content_is_hidden_from_then_on(said: pytest.MonkeyPatch) -> None:
    """Also by loggers that are there already."""
    assert SECRET in record_of("vllm.entrypoints.anthropic.serving").getMessage()
    hide_content()
    assert SECRET not in record_of("vllm.entrypoints.anthropic.serving").getMessage()
    assert SECRET in record_of("vllm.config.model").getMessage()


def test_a_second_call_changes_nothing(said: pytest.MonkeyPatch) -> None:
    """The function is called by two plugins."""
    hide_content()
    once = logging.getLogRecordFactory()
    hide_content()
    assert logging.getLogRecordFactory() is once


def test_it_outlives_the_set_up_of_logging(said: pytest.MonkeyPatch) -> None:
    """uvicorn and vLLM configure their loggers later; vLLM puts its own factory around this one."""
    hide_content()
    logging.config.dictConfig(uvicorn.config.LOGGING_CONFIG)
    inner = logging.getLogRecordFactory()
    logging.setLogRecordFactory(lambda *args, **options: inner(*args, **options))
    hide_content()
    assert record_of("vllm.renderers.hf").getMessage() == "Prompt: [20 characters hidden]"


def test_the_operator_may_have_content(said: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """With one warning."""
    said.setenv("HEADWAY_LOG_CONTENT", "1")
    hide_content()
    assert not isinstance(logging.getLogRecordFactory(), ContentRecords)
    warn_of_content()
    (warning,) = caplog.records
    assert warning.levelname == "WARNING"
    assert "HEADWAY_LOG_CONTENT=1" in warning.getMessage()


def test_there_is_no_warning_where_it_is_hidden(said: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The usual case."""
    warn_of_content()
    assert not caplog.records


@pytest.mark.parametrize(("content", "kept"), [("0", ["disk full"]), ("1", [])])
async def test_a_server_whose_log_has_content_keeps_no_line_for_its_status(
    said: pytest.MonkeyPatch, content: str, kept: list[str]
) -> None:
    """Viewers may read the status, and not the log."""
    said.setenv("HEADWAY_LOG_CONTENT", content)
    said.setattr(HeadwayEndpoint, "_guard_requests", lambda *_: None)
    endpoint, loggers = HeadwayEndpoint(), [logging.getLogger(name) for name in ("headway", "vllm")]
    endpoint._settings = Settings.from_environment()
    before = [logger.handlers[:] for logger in loggers]
    try:
        await endpoint.init_state(None, None, Namespace())
        logging.getLogger("headway.tried").warning("disk full")
        assert [line.message for line in warning_lines()] == kept
    finally:
        for logger, handlers in zip(loggers, before, strict=True):
            logger.handlers[:] = handlers


def test_an_unknown_word_hides_nothing_in_silence(said: pytest.MonkeyPatch) -> None:
    """The word is an error at the start."""
    said.setenv("HEADWAY_LOG_CONTENT", "no")
    with pytest.raises(HeadwayError, match="HEADWAY_LOG_CONTENT"):
        hide_content()


def test_only_a_process_that_was_started_by_the_server_begins_so(said: pytest.MonkeyPatch) -> None:
    """The server's own start is logged in full: it has no content in it."""
    hide_engine_content()
    assert not isinstance(logging.getLogRecordFactory(), ContentRecords)
    code = (
        "import logging, multiprocessing\n"
        "from headway.logs import ContentRecords\n"
        "from headway.vllm_adapter.logs.privacy import hide_engine_content\n"
        "def child():\n"
        "    hide_engine_content()\n"
        "    raise SystemExit(isinstance(logging.getLogRecordFactory(), ContentRecords))\n"
        "if __name__ == '__main__':\n"
        "    process = multiprocessing.get_context('fork').Process(target=child)\n"
        "    process.start()\n"
        "    process.join()\n"
        "    raise SystemExit(process.exitcode)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "HEADWAY_LOG_CONTENT"}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=environment).returncode == 1


def test_pydantics_warnings_about_values_are_not_printed(said: pytest.MonkeyPatch) -> None:
    """Such warnings repeat the value; warnings are errors in this test."""
    hide_content()
    warnings.warn(f"Pydantic serializer warnings:\n  input_value='{SECRET}'", UserWarning, stacklevel=1)


# ---------------------------------------------------------------------- vLLM's source


@cache
def modules() -> tuple[tuple[str, tuple[ast.Call, ...]], ...]:
    """The log calls of each module on the way of a request, by the module's name; read once for all tests."""
    assert SOURCE is not None
    root: Path = SOURCE.package
    found = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        text = path.read_text(encoding="utf-8")
        if parts[0] not in _ELSEWHERE and "logger" in text:
            name = ".".join(("vllm", *(part for part in parts if part != "__init__")))
            found.append((name, tuple(log_calls(text))))
    return tuple(found)


def log_calls(text: str) -> Iterator[ast.Call]:
    """The calls of a module's logger, each read by itself: to parse all of vLLM would take ten seconds."""
    lines = text.splitlines()
    for found in LOG_CALL.finditer(text):
        first = text.count("\n", 0, found.start())
        statement = next(filter(None, (statement_of(lines[first:end]) for end in range(first + 1, len(lines) + 1))))
        call = ast.increment_lineno(statement, first).value
        assert isinstance(call, ast.Call), f"{found[0]} begins a statement of another kind"
        if call.args:
            yield call


def statement_of(lines: list[str]) -> ast.Expr | None:
    """The expression that these lines are; None where it goes on after them."""
    try:
        (statement,) = ast.parse(textwrap.dedent("\n".join(lines))).body
    except SyntaxError:
        return None
    assert isinstance(statement, ast.Expr)
    return statement


def words(call: ast.Call) -> set[str]:
    """The names in the arguments of a call, but for those whose length or kind alone is printed."""
    found: set[str] = set()
    open_nodes: list[ast.AST] = list(call.args[1:])
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("len", "type", "sum"):
            continue
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
            if node.attr.endswith(("_id", "shape")) or node.attr in ("name", "__name__"):
                continue
        elif isinstance(node, ast.Name):
            found.add(node.id)
        open_nodes += ast.iter_child_nodes(node)
    return found


def message(call: ast.Call) -> ast.expr:
    """The message of a call, which follows the level where that is an argument."""
    assert isinstance(call.func, ast.Attribute)
    return call.args[call.func.attr.startswith("log")]


def literal(node: ast.expr) -> bool:
    """Whether a message is a text of the code: one literal, a constant, or a conversion of them."""
    if isinstance(node, ast.BinOp):
        return literal(node.left) and literal(node.right)
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.isupper())


@pytest.mark.slow
@pytest.mark.skipif(SOURCE is None, reason="there is no vLLM")
def test_every_module_that_prints_content_is_known() -> None:
    """No log call outside of the list names a prompt, an output, a body or a key in its arguments."""
    found = {
        f"{name}:{call.lineno} {sorted(words(call) & TELLING)}"
        for name, calls in modules()
        if name not in CONTENT and name not in _NO_CONTENT
        for call in calls
        if words(call) & TELLING
    }
    assert found == set()


@pytest.mark.slow
@pytest.mark.skipif(SOURCE is None, reason="there is no vLLM")
def test_every_module_that_formats_its_messages_is_known() -> None:
    """In the modules of the list a message is a literal, and its content is in its arguments; but for a few."""
    formatted = {name for name, calls in modules() if name in CONTENT for call in calls if not literal(message(call))}
    harmless = {"vllm.renderers.registry", "vllm.tokenizers.registry", "vllm.entrypoints.scale_out.factories"}
    assert {name for name in formatted - harmless if name not in RULES.formatted} == set()
