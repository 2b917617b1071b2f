"""The parts of vLLM that Headway uses, by feature: each exists in the installed release.

vLLM's source is read and not imported, so all of it takes seconds. `make test-versions` runs this file against other
releases and prints which feature fits where; that an engine serves with it is tested by tests/engine, on one release.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from vllm_source import VllmSource

from headway.patches import PATCHES
from headway.vllm_adapter.own_server import STARTER

SOURCE = VllmSource.found()

pytestmark = pytest.mark.skipif(SOURCE is None, reason="there is no vLLM")

CLIENT = ("vllm.v1.engine.async_llm", "AsyncLLM")
CORE = ("vllm.v1.engine.core", "EngineCore")
Check = Callable[[VllmSource], list[str]]


def members(module: str, class_name: str, *names: str) -> Check:
    """A class has these methods or attributes."""

    def missing(source: VllmSource) -> list[str]:
        found = source.members(module, class_name)
        return [f"{module}:{class_name}.{name}" for name in names if name not in found]

    return missing


def takes(module: str, class_name: str, method: str, *parameters: str) -> Check:
    """A method takes these parameters by name."""

    def missing(source: VllmSource) -> list[str]:
        found = source.members(module, class_name).get(method)
        absent = [name for name in parameters if name not in (found or [])]
        return [f"{module}:{class_name}.{method}({name})" for name in absent]

    return missing


def defines(module: str, *names: str) -> Check:
    """A module has these names."""

    def missing(source: VllmSource) -> list[str]:
        found = source.names(module)
        return [f"{module}:{name}" for name in names if name not in found]

    return missing


def exports(module: str, *metrics: str) -> Check:
    """A module has metrics of these names."""

    def missing(source: VllmSource) -> list[str]:
        text = source.text(module) or ""
        return [f"{module}:{name}" for name in metrics if f'"{name}"' not in text]

    return missing


def has_words(module: str, *words: str) -> Check:
    """The source of a module has these words: what it calls by name, and what it passes on."""

    def missing(source: VllmSource) -> list[str]:
        text = source.text(module) or ""
        return [f"{module}: {word}" for word in words if word not in text]

    return missing


def where_there(module: str, word: str, check: Check) -> Check:
    """A check of what only some releases have: nothing is missing where the source of a module lacks the word."""

    def missing(source: VllmSource) -> list[str]:
        return check(source) if word in (source.text(module) or "") else []

    return missing


def any_of(*checks: Check) -> Check:
    """One of several places is enough, as in the code that looks in each."""

    def missing(source: VllmSource) -> list[str]:
        found = [check(source) for check in checks]
        return [] if [] in found else ["one of " + ", ".join(alternative[0] for alternative in found)]

    return missing


def patched(target: str) -> Check:
    """What a patch replaces, ``module:name`` or ``module:Class.member``, exists."""
    module, _, path = target.partition(":")
    name, _, member = path.partition(".")
    return members(module, name, member) if member else defines(module, name)


def launcher(name: str, *modules: str) -> Check:
    """A function of the launcher, in one of the places where ``headway serve`` looks."""
    return any_of(*(defines(module, name) for module in modules))


ARGUMENTS = tuple(f"vllm.entrypoints.{package}.cli_args" for package in ("common", "launchers", "openai"))
SERVERS = ("vllm.entrypoints.launchers.api_server.entry", "vllm.entrypoints.openai.api_server")
STARTUP = ("vllm.entrypoints.common.startup", "vllm.entrypoints.serve.utils.api_utils", "vllm.entrypoints.utils")

#: (feature, what of it, check). `make test-versions` has a column for each feature.
USED: list[tuple[str, str, Check]] = [
    ("wrap", "engine", defines("vllm.engine.async_llm_engine", "AsyncLLMEngine")),
    ("wrap", "arguments", defines("vllm", "AsyncEngineArgs", "SamplingParams")),
    ("wrap", "generate", takes(*CLIENT, "generate", "prompt", "sampling_params", "request_id", "priority")),
    ("wrap", "encode", takes(*CLIENT, "encode", "prompt", "pooling_params", "request_id", "priority")),
    ("wrap", "state", members(*CLIENT, "errored", "abort", "check_health", "output_processor", "vllm_config")),
    ("wrap", "end", takes(*CLIENT, "shutdown", "timeout")),
    ("wrap", "seats", members("vllm.config.scheduler", "SchedulerConfig", "max_num_seqs")),
    ("wrap", "dead engine", defines("vllm.v1.engine.exceptions", "EngineDeadError")),
    ("wrap", "requests", members("vllm.v1.engine.output_processor", "OutputProcessor", "request_states")),
    (
        "plain",
        "plugin",
        members("vllm.plugins.endpoint_plugins.interface", "EndpointPlugin", "attach_router", "init_state"),
    ),
    (
        "plain",
        "groups",
        defines("vllm.plugins", "ENDPOINT_PLUGINS_GROUP", "DEFAULT_PLUGINS_GROUP", "STAT_LOGGER_PLUGINS_GROUP"),
    ),
    ("plain", "early admission", takes(*CLIENT, "check_admission", "n", "request_id")),
    ("plain", "metrics", defines("vllm.v1.metrics.prometheus", "get_prometheus_registry")),
    ("plain", "errors", defines("vllm.exceptions", "GracefulHTTPError", "GenerationError")),
    ("serve", "parser", launcher("make_arg_parser", *ARGUMENTS)),
    ("serve", "check", launcher("validate_parsed_serve_args", *ARGUMENTS)),
    ("serve", "server", launcher("run_server", *SERVERS)),
    ("serve", "environment", launcher("cli_env_setup", *STARTUP)),
    ("serve", "flags", defines("vllm.utils.argparse_utils", "FlexibleArgumentParser")),
    ("limit", "calls", members("vllm.v1.engine.core_client", "AsyncMPClient", "call_utility_async", "outputs_queue")),
    ("limit", "scheduler", members(*CORE, "scheduler", "model_executor")),
    (
        "limit",
        "number",
        any_of(
            members("vllm.v1.core.sched.scheduler", "Scheduler", "max_num_active_reqs"),
            members("vllm.v1.core.sched.scheduler", "Scheduler", "max_num_running_reqs"),
        ),
    ),
    ("limit", "configuration", members("vllm.v1.core.sched.scheduler", "Scheduler", "scheduler_config")),
    (
        "shape",
        "scheduler",
        members(
            "vllm.v1.core.sched.scheduler",
            "Scheduler",
            *("max_num_scheduled_tokens", "running", "waiting", "schedule", "update_from_output"),
        ),
    ),
    (
        "shape",
        "read anew",
        has_words("vllm.v1.core.sched.scheduler", "token_budget = self.max_num_scheduled_tokens", "long_prefill_token"),
    ),
    (
        "shape",
        "request",
        members(
            "vllm.v1.request",
            "Request",
            *("is_prefill_chunk", "num_tokens", "num_computed_tokens", "priority", "arrival_time"),
        ),
    ),
    (
        "shape",
        "prefill interval",
        where_there(
            "vllm.v1.core.sched.scheduler",
            "local_prefill_interval",
            has_words(
                "vllm.v1.core.sched.scheduler", "self.local_prefill_interval > 1", "< self.local_prefill_interval"
            ),
        ),
    ),
    ("shape", "waiting", members("vllm.v1.core.sched.request_queue", "RequestQueue", "peek_request")),
    (
        "shape",
        "output",
        members(
            "vllm.v1.core.sched.output",
            "SchedulerOutput",
            *("num_scheduled_tokens", "total_num_scheduled_tokens", "preempted_req_ids"),
        ),
    ),
    ("steps", "logger", members("vllm.v1.metrics.loggers", "AggregateStatLoggerBase", "record")),
    (
        "steps",
        "record",
        takes("vllm.v1.metrics.loggers", "AggregateStatLoggerBase", "record", "scheduler_stats", "iteration_stats"),
    ),
    ("steps", "prefix hits", members("vllm.v1.metrics.stats", "SchedulerStats", "prefix_cache_stats")),
    ("steps", "manager", members("vllm.v1.metrics.loggers", "StatLoggerManager", "stat_loggers")),
    ("steps", "client", members(*CLIENT, "logger_manager")),
    ("steps", "waiting", exports("vllm.v1.metrics.loggers", "vllm:num_requests_waiting")),
    (
        "steps",
        "scheduler",
        members("vllm.v1.metrics.stats", "SchedulerStats", "num_running_reqs", "num_waiting_reqs", "kv_cache_usage"),
    ),
    (
        "steps",
        "iteration",
        members(
            "vllm.v1.metrics.stats",
            "IterationStats",
            "inter_token_latencies_iter",
            "time_to_first_tokens_iter",
            "finished_requests",
            "num_preempted_reqs",
        ),
    ),
    (
        "steps",
        "ended",
        members(
            "vllm.v1.metrics.stats", "FinishedRequestStats", "request_id", "num_prompt_tokens", "num_generation_tokens"
        ),
    ),
    ("restart", "client", members(*CLIENT, "output_handler", "_run_output_handler", "log_stats", "engine_core")),
    (
        "restart",
        "core",
        takes(
            "vllm.v1.engine.core_client",
            "EngineCoreClient",
            "make_async_mp_client",
            "vllm_config",
            "executor_class",
            "log_stats",
        ),
    ),
    ("restart", "executor", members("vllm.v1.executor.abstract", "Executor", "get_class")),
    ("restart", "processes", members("vllm.v1.engine.utils", "CoreEngineProcManager", "processes")),
    ("restart", "resources", members("vllm.v1.engine.core_client", "BackgroundResources", "engine_manager")),
    ("restart", "open calls", members("vllm.v1.engine.core_client", "AsyncMPClient", "utility_results", "resources")),
    (
        "restart",
        "forget",
        takes("vllm.v1.engine.output_processor", "OutputProcessor", "abort_requests", "request_ids", "internal"),
    ),
    ("restart", "cause", members("vllm.v1.engine.core", "EngineCoreProc", "_send_engine_dead")),
    ("hangs", "steps", members(*CORE, "step", "step_with_batch_queue")),
    ("hangs", "calls", members("vllm.v1.engine.core", "EngineCoreProc", "_handle_client_request")),
    ("hangs", "workers", defines("vllm.v1.executor.multiproc_executor", "MultiprocExecutor")),
    (
        "pause",
        "client",
        members(*CLIENT, "pause_generation", "resume_generation", "is_paused", "sleep", "wake_up", "is_sleeping"),
    ),
    ("pause", "core", members(*CORE, "is_scheduler_paused")),
    ("warm-up", "prompt", defines("vllm.inputs", "TokensPrompt")),
    ("warm-up", "schema", defines("vllm.sampling_params", "StructuredOutputsParams")),
    (
        "warm-up",
        "parameters",
        members("vllm.sampling_params", "SamplingParams", "ignore_eos", "logprobs", "structured_outputs"),
    ),
    ("warm-up", "prefix cache", members(*CLIENT, "reset_prefix_cache")),
    ("API servers", "launcher", members("vllm.entrypoints.cli.serve", "ServeSubcommand", "cmd")),
    ("API servers", "socket", has_words("vllm.entrypoints.cli.serve", "setup_server(args")),
    ("API servers", "engine", takes(*STARTER, "__init__", "vllm_config")),
    ("memory", "workers", members(*CORE, "collective_rpc")),
    *(("patches", f"{patch.name} {target}", patched(target)) for patch in PATCHES for target in patch.targets),
]


@pytest.mark.parametrize(("feature", "part", "check"), USED, ids=[f"{feature}/{part}" for feature, part, _ in USED])
def test_vllm_has_what_headway_uses(feature: str, part: str, check: Check) -> None:
    """What is missing is named with its module."""
    assert SOURCE is not None
    assert check(SOURCE) == []


def test_what_a_release_lacks_is_found() -> None:
    """The checks can fail: by a module, a class, a member, a parameter or a name that does not exist."""
    assert SOURCE is not None
    for check in (
        members("vllm.no_such_module", "AsyncLLM", "generate"),
        members(*CLIENT, "no_such_member"),
        takes(*CLIENT, "generate", "no_such_parameter"),
        takes(*CLIENT, "no_such_method", "prompt"),
        defines("vllm.exceptions", "NoSuchError"),
        exports("vllm.v1.metrics.loggers", "vllm:no_such_metric"),
        any_of(defines("vllm.exceptions", "NoSuchError"), defines("vllm.no_such_module", "anything")),
    ):
        assert len(check(SOURCE)) == 1
