"""The rules that hide the content of requests in the lines of vLLM's loggers.

vLLM prints prompts, outputs, token ids, tool arguments and whole bodies, mostly at level DEBUG, in about a hundred
places, and the messages of its exceptions repeat what they refuse. So of the arguments of these loggers only numbers
and ids are shown, in the API server and in the processes of the engine.
"""

from __future__ import annotations

import logging
import multiprocessing
import warnings
from typing import Final

from headway.logs import ContentRecords, ContentRules
from headway.logs.content_records import Loggers
from headway.settings import Environment

log = logging.getLogger("headway.vllm_adapter.logs.privacy")

#: Everything on the way of a request. The exceptions print addresses, routes and names of adapters.
CONTENT: Final = Loggers(
    "vllm.connections",
    "vllm.distributed.ec_transfer",
    "vllm.distributed.kv_transfer",
    "vllm.entrypoints",
    "vllm.inputs",
    "vllm.logging_utils.dump_input",
    "vllm.logprobs",
    "vllm.multimodal",
    "vllm.outputs",
    "vllm.parser",
    "vllm.pooling_params",
    "vllm.reasoning",
    "vllm.renderers",
    "vllm.sampling_params",
    "vllm.tokenizers",
    "vllm.tool_parsers",
    "vllm.transformers_utils.chat_templates",
    "vllm.transformers_utils.processors",
    "vllm.v1.core.sched",
    "vllm.v1.engine",
    "vllm.v1.request",
    "vllm.v1.sample",
    "vllm.v1.serial_utils",
    "vllm.v1.structured_output",
    but=(
        "vllm.entrypoints.cli",
        "vllm.entrypoints.launchers",
        "vllm.entrypoints.openai.models",
        "vllm.entrypoints.serve.lora",
        "vllm.v1.engine.coordinator",
        "vllm.v1.engine.core",
        "vllm.v1.engine.core_client",
        "vllm.v1.engine.utils",
    ),
)
RULES: Final = ContentRules(
    arguments=CONTENT,
    exceptions=Loggers("asyncio", "uvicorn.error"),
    lines=frozenset({"Unexpected error pre-processing request %s"}),  # of EngineCore: its other errors are shown
    formatted=Loggers(
        "vllm.distributed.ec_transfer",
        "vllm.distributed.kv_transfer",
        "vllm.tool_parsers.utils",
        "vllm.tool_parsers.xlam_tool_parser",
    ),
    refusals=Loggers("vllm.entrypoints"),
    escaped=Loggers("headway", "uvicorn", "vllm.entrypoints", "vllm.v1.engine"),
)


def hide_content() -> None:
    """Keep content out of the log lines of this process, unless HEADWAY_LOG_CONTENT says otherwise.

    The rule survives the set-up of logging by vLLM and by uvicorn, which may come later. A second call does nothing.
    """
    factory = logging.getLogRecordFactory()
    if Environment().log_content or isinstance(factory, ContentRecords):
        return
    logging.setLogRecordFactory(ContentRecords(factory, RULES))
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings")  # they have the values in them


def hide_engine_content() -> None:
    """Hide content in a process that the server started: EngineCore, or a worker. The server hides it at its start."""
    if multiprocessing.parent_process() is not None:
        hide_content()


def warn_of_content() -> None:
    """Log one warning where the operator has turned content on."""
    if Environment().log_content:
        log.warning(
            "HEADWAY_LOG_CONTENT=1: log lines contain prompts, outputs and tool arguments; unset it to hide them"
        )
