"""The names of vLLM that Headway replaces or adds: one row each. All else goes through vLLM's plugin interfaces.

A row is carried out in every process of a server that has the targets: the API server, EngineCore, the workers.
``HEADWAY_PATCHES_OFF`` switches rows off by their names, to find out whether one of them is at fault. ``engine-calls``
stays: it replaces nothing, and the server asks the engine by these calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from headway.errors import HeadwayError
from headway.settings import Environment

_VLLM = "https://github.com/vllm-project/vllm/"


@dataclass(frozen=True, slots=True)
class Patch:
    """A change of vLLM. ``targets`` are ``module:name`` or ``module:Class.member``.

    ``upstream`` is the issue or pull request that would make the change needless; empty where none is known.
    """

    name: str
    targets: tuple[str, ...]
    reason: str
    without: str
    upstream: str = ""


PATCHES: Final = (
    Patch(
        "engine-calls",
        ("vllm.v1.engine.core:EngineCore",),
        "Methods are added that set the live number of sequences, clear the workers' caches and read what blocks it.",
        "This patch cannot be switched off: it replaces nothing.",
        f"{_VLLM}pull/54816",
    ),
    Patch(
        "progress",
        (
            "vllm.v1.engine.core:EngineCore.step",
            "vllm.v1.engine.core:EngineCore.step_with_batch_queue",
            "vllm.v1.engine.core:EngineCoreProc._handle_client_request",
        ),
        "Each step and each call is recorded when it begins and ends, so that a hang is told from a long step.",
        "A hung engine is found by its silence alone, and the figures of the step policy are missing.",
        f"{_VLLM}pull/36451",
    ),
    Patch(
        "limits-page",
        ("vllm.v1.engine.core:EngineCore.step", "vllm.v1.engine.core:EngineCore.step_with_batch_queue"),
        "Before a step, the limit written by the queue before several API servers or vLLM's Rust front end is set.",
        "Behind such a queue, the queue alone keeps the limit, and prefill_share has no effect.",
    ),
    Patch(
        "step-ring",
        (
            "vllm.v1.engine.core:EngineCore.step",
            "vllm.v1.engine.core:EngineCore.step_with_batch_queue",
            "vllm.v1.core.sched.scheduler:Scheduler.update_from_output",
        ),
        "Each step and its computed prompt tokens are written down for the process with the queue.",
        "A prompt in chunks is known by its last step alone; several API servers by the tokens of their streams.",
    ),
    Patch(
        "steps",
        (
            "vllm.v1.core.sched.scheduler:Scheduler.schedule",
            "vllm.v1.core.sched.scheduler:Scheduler.update_from_output",
        ),
        "Under a preset with a prefill_share each step of the scheduler is given a budget of prompt tokens.",
        "A long prompt delays the next token of all sequences beside it; prefill_share has no effect.",
    ),
    Patch(
        "grammar-times",
        (
            "vllm.v1.structured_output:StructuredOutputManager.grammar_init",
            "vllm.v1.structured_output:StructuredOutputManager._create_grammar",
        ),
        "The age of each compilation of a grammar is recorded, for vLLM cancels none.",
        "A grammar that compiles without an end is not reported, and does not make the server not ready.",
        f"{_VLLM}issues/54003",
    ),
    Patch(
        "death-cause",
        ("vllm.v1.engine.core:EngineCoreProc._send_engine_dead",),
        "EngineCore writes down why it dies; without the patch its client does not learn the cause.",
        "Every death counts as a crash, also one for want of memory.",
    ),
    Patch(
        "process-watch",
        (
            "vllm.v1.engine.utils:CoreEngineProcManager.__init__",
            "vllm.v1.engine.coordinator:DPCoordinator.__init__",
            "vllm.v1.executor.multiproc_executor:MultiprocExecutor.__init__",
        ),
        "No process of the engine outlives the server; a start can be interrupted; progress has a file.",
        "A killed server leaves the engine behind, with its memory; `progress` does nothing.",
        f"{_VLLM}issues/55510",
    ),
    Patch(
        "ranks",
        (
            "vllm.v1.engine.utils:CoreEngineProcManager.__init__",
            "vllm.v1.engine.utils:CoreEngineProcManager.monitor_engine_liveness",
        ),
        "The ranks of data parallelism end with the first that dies, and start on the devices that the user gave.",
        "A dead rank is sent requests for five seconds, and the next engine may start on the wrong devices.",
    ),
    Patch(
        "cpu-yield",
        ("vllm.distributed.device_communicators.shm_broadcast:sched_yield",),
        "On a CPU backend with few cores a waiting process spins for a millisecond and then sleeps.",
        "vLLM spins for a second after each message, which can keep the web server off a small machine.",
        f"{_VLLM}pull/52848",
    ),
    Patch(
        "json-lines",
        ("vllm.logging_utils:NewLineFormatter", "vllm.logging_utils:ColoredFormatter"),
        "HEADWAY_LOG_FORMAT=json: the formatters are replaced where logging is set up by name.",
        "HEADWAY_LOG_FORMAT=json changes Headway's own lines at most.",
        f"{_VLLM}issues/58171",
    ),
    Patch(
        "fail-fast",
        (),
        "The validators of the application's routes stop at the first wrong element of a list.",
        "30 KB of a wrong request can block the event loop for a minute.",
        f"{_VLLM}issues/49239",
    ),
)
_NAMES: Final = tuple(patch.name for patch in PATCHES)
_SWITCHED: Final = tuple(name for name in _NAMES if name != "engine-calls")


def switched_off(environment: Mapping[str, str] | None = None) -> frozenset[str]:
    """The rows that are switched off. Raises HeadwayError in one line where the variable has another name."""
    names = frozenset(Environment(environment).patches_off)
    if unknown := ", ".join(sorted(names - set(_SWITCHED))):
        known = ", ".join(_SWITCHED)
        raise HeadwayError(
            f"{Environment.patches_off.name}: no patch {unknown!r} can be switched off; there are {known}"
        )
    return names


def in_force_words(off: Iterable[str], needless: Iterable[str] = ()) -> str:
    """The line for the log of a start. ``needless`` rows do nothing on this machine or under these settings."""
    off, needless = set(off), set(needless)
    on = ", ".join(name for name in _NAMES if name not in off | needless)
    return f"patches of vLLM in force: {on}" + (f"; switched off: {', '.join(sorted(off))}" if off else "")
