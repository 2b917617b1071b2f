"""Checks before the demo: all that can be found out before a process is started."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from headway.console import (
    UsageError,
    check_vllm,
    find_preset,
    missing_dashboard_packages,
    open_catalogue,
    preset_dir,
    try_bind,
)
from headway.demo.options import HOST, Options
from headway.demo.traffic import CLASSES


def check(options: Options) -> None:
    """Raise UsageError with one line that says what to do, if the demo cannot run."""
    if not (Path(options.model) / "config.json").is_file():
        raise UsageError(
            f"no model in {options.model}; `make demo` in a clone of the repository prepares the small one, "
            "or give --model DIR"
        )
    preset = find_preset(options.preset, open_catalogue(preset_dir(None, os.environ))).preset
    if missing := [name for name in CLASSES if name not in preset.classes]:
        raise UsageError(f"preset {preset.name} has no class {', '.join(missing)}, which the demo's traffic uses")
    check_vllm()
    if parts := missing_dashboard_packages():
        raise UsageError(f"the demo needs {', '.join(parts)}; pip install 'vllm-headway[dashboard]'")
    if importlib.util.find_spec("openai") is None:
        raise UsageError("the demo's clients need the openai package; install it with: pip install openai")
    if options.server_port == options.dashboard_port:
        raise UsageError("--port and --dashboard-port are the same; give two different ones")
    try_bind(HOST, options.server_port)
    try_bind(HOST, options.dashboard_port, "--dashboard-port")
