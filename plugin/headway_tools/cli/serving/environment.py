"""The environment of the plugin: the only settings that reach every process vLLM starts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from headway.checks.start import uses_rust
from headway.settings import Environment
from headway_tools.console import absolute, has, value_of

PLUGIN = "headway"
MOST_API_SERVERS = 64
_API_SERVERS = ("--api-server-count", "-asc")
#: Groups of which vLLM loads every plugin as long as VLLM_PLUGINS is unset.
_LOADED_BY_DEFAULT = (
    "vllm.general_plugins",
    "vllm.platform_plugins",
    "vllm.io_processor_plugins",
    "vllm.stat_logger_plugins",
)


def plugin_environment(preset: str, folder: Path | None, environ: Mapping[str, str], *, warmup: bool) -> dict[str, str]:
    """The variables to set before vLLM is imported; ``preset`` is a name or a file."""
    variables = {
        "VLLM_PLUGINS": ",".join(allowed_plugins(environ.get("VLLM_PLUGINS"), installed_plugins())),
        Environment.preset.name: absolute(preset),
    }
    if folder is not None:
        variables[Environment.preset_dir.name] = str(folder)
    if not warmup:
        variables[Environment.warmup.name] = "0"
    return variables


def allowed_plugins(current: str | None, installed: Iterable[str]) -> list[str]:
    """Our plugin, and the plugins that load without it.

    VLLM_PLUGINS is an allow-list for every kind of plugin: naming only ours would switch off a platform or a resolver
    that loads by itself while the variable is unset. A list of the user's is only added to.
    """
    others = sorted(installed) if current is None else [name for name in current.split(",") if name]
    return list(dict.fromkeys([*others, PLUGIN]))


def installed_plugins() -> set[str]:
    """The names of the plugins vLLM loads by default in this installation."""
    return {point.name for group in _LOADED_BY_DEFAULT for point in metadata.entry_points(group=group)}


def engine_defaults(engine: Sequence[str]) -> list[str]:
    """The vLLM flags Headway adds, unless the user gave them, on the command line or in ``--config``.

    The numbers of sequences and of tokens in a step are not among them: they are vLLM's, by its hardware.
    """
    return [] if setting_of(engine, "--scheduling-policy") is not None else ["--scheduling-policy", "priority"]


def setting_of(engine: Sequence[str], flag: str) -> str | None:
    """The value of a vLLM flag, on the command line or in ``--config``; None where neither sets it."""
    if has(engine, flag):
        return value_of(engine, flag) or ""
    return value_in(config_text(engine), flag)


def config_text(engine: Sequence[str]) -> str:
    """The text of vLLM's ``--config`` file, if one is given and can be read."""
    file = value_of(engine, "--config")
    try:
        return Path(file).read_text(encoding="utf-8") if file else ""
    except (OSError, UnicodeDecodeError):
        return ""  # vLLM explains what is wrong with it


def api_servers(engine: Sequence[str], config: str) -> int:
    """The number of API servers in these words or this text of ``--config``; 1 for what vLLM will refuse."""
    given = [value_of(engine, flag) or value_in(config, flag) for flag in _API_SERVERS]
    text = next((value for value in given if value), "1")
    return int(text) if text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= MOST_API_SERVERS else 1


def behind_queue(engine: Sequence[str], config: str, environ: Mapping[str, str]) -> bool:
    """Whether vLLM's own launcher is started, behind the queue: for several API servers, or its front end in Rust."""
    return api_servers(engine, config) > 1 or uses_rust(environ)


def value_in(config: str, flag: str) -> str | None:
    """The value of a key on a line of its own in a ``--config`` file, None without one. vLLM alone reads the whole."""
    key = flag.lstrip("-").replace("-", "[-_]")
    found = re.search(rf"^\s*[\"']?{key}[\"']?\s*:[ \t]*([^\n#]*)", config, re.MULTILINE)
    return found and found[1].strip()
