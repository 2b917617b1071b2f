"""Checks before a server starts: all that can be found out before vLLM is imported, which takes seconds.

Each raises UsageError with one line that says what to do next. The environment is checked by ``headway.checks``.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from headway.checks.finding import Finding, fail, failures
from headway_tools.console.exits import UsageError
from headway_tools.console.installation import install_command
from headway_tools.console.serve_flags import has, model_of, value_of

VLLM_PORT = 8000
_DASHBOARD_PACKAGES = ("headway_dashboard", "streamlit", "plotly", "prometheus_api_client")
_TRUE = {"1", "true", "yes", "on"}


def refuse(findings: Iterable[Finding]) -> None:
    """Raises UsageError with all that fails."""
    if found := failures(findings):
        raise UsageError("; ".join(found))


def check_variables(environ: Mapping[str, str]) -> None:
    """Refuse an environment that a server could not start with."""
    # Here: it imports the HTTP side of a server, which few commands need.
    from headway.checks.environment import check_environment

    refuse(check_environment(environ))


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
        raise UsageError(f"no such model: {model} does not exist; give the folder with its config.json")
    if environ.get("HF_HUB_OFFLINE", "").lower() in _TRUE and not _in_hub_cache(model, environ):
        raise UsageError(
            f"no such model: {model} is neither a folder here nor in the Hugging Face cache, and HF_HUB_OFFLINE "
            "forbids a download; give a folder, or unset HF_HUB_OFFLINE"
        )


def check_address(engine: Sequence[str]) -> None:
    """Refuse an address that cannot be bound. An address that only ``--config`` names is left to vLLM."""
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
    except UnicodeError:
        raise UsageError(f"--host {host[:80]!r} is no name or address, such as 127.0.0.1") from None
    except OSError as error:
        raise UsageError(_why_not_bound(host, port, flag, error)) from None


def has_vllm() -> bool:
    """Whether vLLM is installed."""
    return importlib.util.find_spec("vllm") is not None


def no_vllm() -> Finding:
    """The finding that vLLM is missing, with the commands that bring it."""
    gpu, cpu = install_command("gpu"), install_command("cpu")
    return fail("vLLM is not installed", f"install it with: {gpu} (NVIDIA GPU) or {cpu}")


def check_vllm() -> None:
    """Refuse to go on without vLLM."""
    if not has_vllm():
        refuse([no_vllm()])


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
