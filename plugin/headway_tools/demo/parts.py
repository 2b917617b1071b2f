"""Command lines and environments of the demo's child processes."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

from headway_tools.demo.options import HOST, Options

_ACCESS_VARIABLES = ("HEADWAY_KEYS_FILE", "HEADWAY_TRUSTED_PROXIES", "HEADWAY_CLOSED_ROUTES", "VLLM_API_KEY")
_TOKEN_VARIABLES = ("HEADWAY_ADMIN_TOKEN", "HEADWAY_VIEWER_TOKEN", "HEADWAY_VIEWER_TOKEN_FILE")
_MAX_MODEL_LEN_TOKENS = "2048"


def write_token(folder: Path) -> Path:
    """Make a fresh admin token in a file only its owner can read."""
    file = folder / "admin.token"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(secrets.token_urlsafe(32) + "\n")
    return file


def server_command(options: Options) -> list[str]:
    """``headway serve`` by this same interpreter, which chooses what makes it start on this machine.

    A demo is short: what a compiled model would save does not make up for its start.
    """
    command = [sys.executable, "-m", "headway", "serve", options.model, "--preset", options.preset, "--quick-start"]
    command += ["--host", HOST, "--port", str(options.server_port)]
    command += ["--served-model-name", options.model_name, "--max-model-len", _MAX_MODEL_LEN_TOKENS]
    return [*command, "--disable-uvicorn-access-log"]


def dashboard_command(options: Options) -> list[str]:
    """``headway dashboard`` by this same interpreter."""
    where = ["--url", options.server_url, "--host", HOST, "--port", str(options.dashboard_port)]
    return [sys.executable, "-m", "headway", "dashboard", *where]


def environment(environ: Mapping[str, str], token_file: Path) -> dict[str, str]:
    """The children's environment: our token and no other, no model hub, no usage statistics."""
    trusted = {"HEADWAY_TRUSTED_PROXIES": HOST}  # the demo's own clients have every class
    defaults = trusted | {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "PYTHONUNBUFFERED": "1",
    }
    inherited = {key: value for key, value in environ.items() if key not in (*_TOKEN_VARIABLES, *_ACCESS_VARIABLES)}
    return defaults | inherited | {"HEADWAY_ADMIN_TOKEN_FILE": str(token_file)}


def own_command() -> str:
    """The call of ``headway`` from the current directory, without an activated environment."""
    script = Path(sys.executable).parent / "headway"
    if not script.exists():
        return f"{sys.executable} -m headway"
    return str(script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script)
