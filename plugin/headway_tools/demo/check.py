"""Checks before the demo: all that can be found out before a process is started."""

from __future__ import annotations

import os
from pathlib import Path

from headway_tools.console import (
    UsageError,
    find_preset,
    has_vllm,
    install_command,
    missing_dashboard_packages,
    open_catalogue,
    preset_dir,
    try_bind,
)
from headway_tools.demo.options import HOST, Options
from headway_tools.demo.traffic import CLASSES


def check(options: Options) -> None:
    """Raise UsageError with one line that says what to do, if the demo cannot run."""
    _check_packages()
    if not (Path(options.model) / "config.json").is_file():
        raise UsageError(
            f"no model in {options.model}; `make demo` in a clone of the repository prepares the small one, "
            "or give --model DIR"
        )
    preset = find_preset(options.preset, open_catalogue(preset_dir(None, os.environ))).preset
    if missing := [name for name in CLASSES if name not in preset.classes]:
        raise UsageError(f"preset {preset.name} has no class {', '.join(missing)}, which the demo's traffic uses")
    if options.server_port == options.dashboard_port:
        raise UsageError("--port and --dashboard-port are the same; give two different ones")
    try_bind(HOST, options.server_port)
    try_bind(HOST, options.dashboard_port, "--dashboard-port")


def _check_packages() -> None:
    """Name all missing packages in one line: where one of them is missing, others are too."""
    engine = [] if has_vllm() else ["vLLM"]
    dashboard = missing_dashboard_packages()
    extras = [*(["cpu"] if engine else []), *(["dashboard"] if dashboard else [])]
    more = " (gpu instead of cpu with an NVIDIA GPU); `make demo` in a clone does it" if engine else ""
    if missing := [*engine, *dashboard]:
        raise UsageError(f"the demo needs {', '.join(missing)}; install with: {install_command(*extras)}{more}")
