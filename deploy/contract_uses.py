"""The names of vLLM in the adapter's code: its imports, the members that it reads, and the patch table.

The adapter's objects of vLLM are untyped, so a member's class is known by the word before it: ``OWNERS`` says which
class of vLLM the adapter means by a word, and ``scheduler.running`` is a member of ``Scheduler``. A member that the
code asks for by ``getattr`` or ``hasattr``, or imports in a ``try``, is one that it can do without.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headway.patches import PATCHES

_PLUGIN = Path(__file__).resolve().parent.parent / "plugin" / "headway"
_FILES = (*sorted((_PLUGIN / "vllm_adapter").rglob("*.py")), _PLUGIN / "admission" / "policy_client.py")

_CLIENT = "vllm.v1.engine.async_llm:AsyncLLM"
_CORE = "vllm.v1.engine.core:EngineCore"
_CORE_CLIENT = "vllm.v1.engine.core_client:AsyncMPClient"
_MANAGER = "vllm.v1.engine.utils:CoreEngineProcManager"
_CONFIG = "vllm.config.vllm:VllmConfig"
_SCHEDULER = "vllm.v1.core.sched.scheduler:Scheduler"
_SCHEDULER_CONFIG = "vllm.config.scheduler:SchedulerConfig"
_SAMPLING = "vllm.sampling_params:SamplingParams"
_MODEL = "vllm.config.model:ModelConfig"
_PROCESSOR = "vllm.v1.engine.output_processor:OutputProcessor"
_LOGGERS = "vllm.v1.metrics.loggers:StatLoggerManager"

#: The class that a word means everywhere in the adapter, and where a file means another; None: nothing of vLLM.
OWNERS: Final[dict[str, str]] = {
    "engine": _CLIENT, "client": _CLIENT, "engine_client": _CLIENT,
    "config": _CONFIG, "vllm_config": _CONFIG,
    "scheduler_config": _SCHEDULER_CONFIG, "model_config": _MODEL, "model": _MODEL,
    "cache_config": "vllm.config.cache:CacheConfig", "cache": "vllm.config.cache:CacheConfig",
    "parallel_config": "vllm.config.parallel:ParallelConfig", "parallel": "vllm.config.parallel:ParallelConfig",
    "device_config": "vllm.config.device:DeviceConfig",
    "scheduler": _SCHEDULER, "core": _CORE, "engine_core": _CORE_CLIENT,
    "resources": "vllm.v1.engine.core_client:BackgroundResources",
    "engine_manager": _MANAGER, "manager": _MANAGER, "logger_manager": _LOGGERS,
    "processor": _PROCESSOR, "output_processor": _PROCESSOR,
    "scheduler_stats": "vllm.v1.metrics.stats:SchedulerStats",
    "iteration_stats": "vllm.v1.metrics.stats:IterationStats",
    "finished": "vllm.v1.metrics.stats:FinishedRequestStats",
    "prefixes": "vllm.v1.metrics.stats:PrefixCacheStats", "sources": "vllm.v1.metrics.stats:PromptTokenStats",
    "sampling_params": _SAMPLING, "params": _SAMPLING, "chosen": "vllm.sampling_params:StructuredOutputsParams",
    "model_executor": "vllm.v1.executor.abstract:Executor", "request": "vllm.v1.request:Request",
    "grammar": "vllm.v1.structured_output.backend_types:StructuredOutputGrammar",
    "backend": "vllm.v1.structured_output.backend_types:StructuredOutputBackend",
    "current_platform": "vllm.platforms.interface:Platform",
}  # fmt: skip
_OTHERWISE: Final[dict[tuple[str, str], str | None]] = {
    ("step_shaper", "config"): _SCHEDULER_CONFIG,
    ("step_shaper", "waiting"): "vllm.v1.core.sched.request_queue:RequestQueue",
    ("step_shaper", "output"): "vllm.v1.core.sched.output:SchedulerOutput",
    ("warmup_requests", "config"): None,
    ("engine_adapter", "scheduler"): _SCHEDULER_CONFIG,
    ("engine_adapter", "core"): _CORE_CLIENT,
    ("engine_adapter", "manager"): _LOGGERS,
    ("engine_adapter", "output"): "vllm.outputs:RequestOutput",
    ("engine_adapter", "sequence"): "vllm.outputs:CompletionOutput",
    ("engine_adapter", "stats"): "vllm.v1.metrics.stats:RequestStateStats",
    ("core_start", "core"): _CORE_CLIENT,
    ("engine_replacer", "core"): _CORE_CLIENT,
    ("death_cause", "core"): "vllm.v1.engine.core:EngineCoreProc",
    ("progress", "core"): "vllm.v1.engine.core:EngineCoreProc",
    ("step_recorder", "core"): "vllm.v1.engine.core:EngineCoreProc",
    ("progress", "manager"): "vllm.v1.structured_output:StructuredOutputManager",
    ("worker_memory", "model"): None,
    ("worker_memory", "worker"): "vllm.v1.worker.worker_base:WorkerBase",
    ("worker_memory", "runner"): "vllm.v1.worker.gpu_model_runner:GPUModelRunner",
}  # fmt: skip
#: Classes of Headway that take the place of one of vLLM's, and have its methods.
_STANDS_FOR: Final = {
    "PolicyClient": _CLIENT,
    "HeadwayEndpoint": "vllm.plugins.endpoint_plugins.interface:EndpointPlugin",
}
#: Members of objects that are Headway's or Python's, whatever the word before them.
_OURS: Final = frozenset({"pid", "forget_loads", "listen"})
#: Methods that the policy client leaves out where the engine's class lacks them (``make_policy_class``).
_LEFT_OUT: Final = frozenset({"check_admission"})
#: Names that reach vLLM as values: keyword arguments that are passed on, entry points, and what a program wraps.
_PASSED: Final = {
    "engine_adapter": (f"{_CLIENT}.generate(priority)", f"{_CLIENT}.encode(priority)"),
    "warmup_requests": (f"{_SAMPLING}.ignore_eos", f"{_SAMPLING}.logprobs"),
    "core_start": tuple(
        f"vllm.v1.engine.core_client:EngineCoreClient.make_async_mp_client({name})"
        for name in ("executor_class", "log_stats")
    ),
    "wrapping": ("vllm:AsyncEngineArgs", "vllm.engine.async_llm_engine:AsyncLLMEngine"),
    "own_server": (f"{_MANAGER}.__init__(vllm_config)",),
    "pyproject": tuple(
        f"vllm.plugins:{name}_PLUGINS_GROUP" for name in ("DEFAULT", "ENDPOINT", "STAT_LOGGER")
    ),
}  # fmt: skip
_ASKING = ("getattr", "hasattr")


@dataclass(frozen=True, slots=True)
class Use:
    """A name of vLLM, whether the adapter needs it, and the files that use it."""

    text: str
    needed: bool
    by: tuple[str, ...]


def uses() -> list[Use]:
    """Every name that the adapter uses or replaces, sorted."""
    return uses_in(_FILES, {f"patch {patch.name}": patch.targets for patch in PATCHES} | _PASSED)


def uses_in(files: Iterable[Path], passed: Mapping[str, Iterable[str]]) -> list[Use]:
    """The names in these files, and the ``passed`` names, by module; sorted."""
    found: dict[str, dict[str, bool]] = {}
    for path in files:
        for text, needed in _Reader(path).names():
            of_files = found.setdefault(text, {})
            of_files[path.stem] = of_files.get(path.stem, False) or needed
    for place, texts in passed.items():
        for text in texts:
            found.setdefault(text, {})[place] = True
    return [Use(text, any(by.values()), tuple(sorted(by))) for text, by in sorted(found.items())]


class _Reader:
    """The names in one file, each with whether the file needs it."""

    def __init__(self, path: Path) -> None:
        self._stem = path.stem
        self._tree = ast.parse(path.read_text(encoding="utf-8"))
        self._imported: dict[str, str] = {}
        self._modules: dict[str, str] = {}
        self._tuples = {
            target.id: words
            for node in ast.walk(self._tree) if isinstance(node, ast.Assign)
            for target in node.targets if isinstance(target, ast.Name) and (words := _words(node.value))
        }  # fmt: skip

    def names(self) -> Iterator[tuple[str, bool]]:
        """Every name, with repetitions."""
        yield from self._imports()
        members = list(self._members())
        asked = {text for text, needed in members if not needed}
        yield from ((text, needed and text not in asked) for text, needed in members)
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call):
                yield from self._call(node)
            elif isinstance(node, ast.ClassDef):
                yield from self._methods(node)

    def _imports(self) -> Iterator[tuple[str, bool]]:
        tried = {id(below) for node in ast.walk(self._tree) if isinstance(node, ast.Try)
                 for part in node.body for below in ast.walk(part)}  # fmt: skip
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Import):
                self._modules.update((alias.asname, alias.name) for alias in node.names
                                     if alias.asname and _is_vllm(alias.name))  # fmt: skip
            elif isinstance(node, ast.ImportFrom) and _is_vllm(node.module or ""):
                for alias in node.names:
                    self._imported[alias.name] = text = f"{node.module}:{alias.name}"
                    yield text, id(node) not in tried

    def _members(self) -> Iterator[tuple[str, bool]]:
        instead = set[int]()
        for node in ast.walk(self._tree):
            if (
                isinstance(node, ast.BoolOp)
                and (texts := [self._member(value) for value in node.values])
                and all(texts)
            ):
                instead.update(map(id, node.values))  # `getattr(owner, "a", None) or owner.b`
                yield " | ".join(texts), True
            elif (
                isinstance(node, ast.Attribute | ast.Call) and id(node) not in instead and (text := self._member(node))
            ):
                yield text, isinstance(node, ast.Attribute)
            elif isinstance(node, ast.GeneratorExp | ast.ListComp):
                yield from self._listed(node)

    def _member(self, node: ast.expr) -> str:
        """``owner.name``, or ``getattr(owner, "name")``; "" for all else."""
        place, name = node, ""
        if isinstance(node, ast.Attribute):
            place, name = node.value, node.attr
        elif isinstance(node, ast.Call) and _called(node) in _ASKING and len(node.args) > 1:
            place, name = node.args[0], _text(node.args[1])
        owner = self._owner(place) if _is_theirs(name) else None
        return _joined(owner, name) if owner else ""

    def _listed(self, node: ast.GeneratorExp | ast.ListComp) -> Iterator[tuple[str, bool]]:
        """``next(name for name in NAMES if hasattr(owner, name))``: one of them; of a list each that is there."""
        loop = node.generators[0]
        words = self._tuples.get(loop.iter.id, ()) if isinstance(loop.iter, ast.Name) else ()
        for test in loop.ifs:
            if words and isinstance(test, ast.Call) and test.args and (owner := self._owner(test.args[0])):
                texts = [_joined(owner, word) for word in words]
                if isinstance(node, ast.GeneratorExp):
                    yield " | ".join(texts), True
                else:
                    yield from ((text, False) for text in texts)

    def _call(self, node: ast.Call) -> Iterator[tuple[str, bool]]:
        """``f("vllm.module", "name")``, ``f(MODULES, "name")``, ``owner.method(parameter=...)``, also as a partial."""
        if len(node.args) == 2 and (name := _text(node.args[1])):
            place = node.args[0]
            modules = (
                self._tuples.get(place.id, ()) if isinstance(place, ast.Name) else _words(place) or (_text(place),)
            )
            if modules and all(map(_is_vllm, modules)):
                yield " | ".join(f"{module}:{name}" for module in modules), True
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr == "partial" and node.args:
            function = node.args[0]
        if isinstance(function, ast.Attribute) and (owner := self._owner(function.value)):
            for keyword in node.keywords:
                if keyword.arg is not None:
                    yield f"{owner}.{function.attr}({keyword.arg})", True

    def _methods(self, node: ast.ClassDef) -> Iterator[tuple[str, bool]]:
        """The methods of a class that derives from one of vLLM's or stands for one, with their parameters."""
        bases = [self._imported[base.id] for base in node.bases
                 if isinstance(base, ast.Name) and base.id in self._imported]  # fmt: skip
        for owner in [*bases, *filter(None, [_STANDS_FOR.get(node.name)])]:
            for method in node.body:
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.name[0] != "_":
                    if method.name in _OURS:
                        continue
                    needed = method.name not in _LEFT_OUT
                    yield f"{owner}.{method.name}", needed
                    for argument in method.args.args[1:]:
                        yield f"{owner}.{method.name}({argument.arg})", needed

    def _owner(self, node: ast.expr) -> str | None:
        """The class of vLLM that this expression is an object of, or the module that it is."""
        word = ""
        if isinstance(node, ast.Name):
            if node.id in self._modules:
                return self._modules[node.id]
            if node.id in self._imported and node.id not in OWNERS:
                return self._imported[node.id]
            word = node.id
        elif isinstance(node, ast.Attribute):
            word = node.attr
        elif isinstance(node, ast.Call) and _called(node) == "getattr" and len(node.args) > 1:
            word = _text(node.args[1])
        elif isinstance(node, ast.Call) and len(node.args) == 1 and _is_vllm(_text(node.args[0])):
            return _text(node.args[0])
        word = word.lstrip("_")
        return _OTHERWISE[self._stem, word] if (self._stem, word) in _OTHERWISE else OWNERS.get(word)


def _is_theirs(name: str) -> bool:
    """Whether a member can be vLLM's: not of every object, and not one that Headway adds."""
    return bool(name) and name not in _OURS and not name.startswith(("__", "headway"))


def _is_vllm(module: str) -> bool:
    return module.partition(".")[0] == "vllm"


def _joined(owner: str, name: str) -> str:
    return f"{owner}.{name}" if ":" in owner else f"{owner}:{name}"


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _words(node: ast.expr) -> tuple[str, ...]:
    """The texts of a tuple of nothing else; else nothing."""
    words = tuple(map(_text, node.elts)) if isinstance(node, ast.Tuple) else ()
    return words if all(words) else ()
