"""One real server that lets nobody in without a key, and prints all that it can print.

It is stock `vllm serve` with the plugin named, and vLLM's own admission limit on.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from otlp_receiver import OtlpReceiver, otlp_receiver
from running_server import ONE_PROCESS, ONE_THREAD, SEATS, RunningServer

from headway.keys import add_key

#: The tenants of its keys file.
TENANTS: dict[str, dict[str, Any]] = {
    "top": {},
    "low": {"classes": ["batch"], "default_class": "batch"},
    "slow": {"requests_per_minute": 3},
}
VIEWER_TOKEN = "v" * 40
_PRINTED = (
    "--enable-log-requests", "--enable-log-outputs", "--log-error-stack", "--uvicorn-log-level", "trace",
    "--enable-auto-tool-choice", "--tool-call-parser", "hermes",
)  # fmt: skip
_PRINTS = {
    "VLLM_LOGGING_LEVEL": "DEBUG",
    "VLLM_DEBUG_LOG_API_SERVER_RESPONSE": "1",
    "HEADWAY_LOG_FORMAT": "json",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
    "OTEL_BSP_SCHEDULE_DELAY": "200",
}
_ACCESS = {
    "HEADWAY_TRUSTED_PROXIES": "",
    "HEADWAY_VIEWER_TOKEN": VIEWER_TOKEN,
    "VLLM_SERVER_DEV_MODE": "1",
    "HEADWAY_ALLOW_DEV_MODE": "1",
    "HEADWAY_VLLM_WAITING": "1",
}


#: More than wait in any test: vLLM refuses none of them by itself.
MOST_QUEUED = 100


@dataclass(frozen=True, slots=True)
class StrictServer:
    """The server, its keys file with a key of each tenant, vLLM's own key, and where its traces arrive."""

    server: RunningServer
    keys_file: str
    keys: Mapping[str, str]
    api_key: str
    traces: OtlpReceiver


@contextmanager
def strict_server(folder: Path) -> Iterator[StrictServer]:
    """Start one, without a warm-up; this machine is no trusted proxy of it."""
    path, now = str(folder / "keys.toml"), datetime.now(UTC)
    keys = {name: add_key(path, name, now=now, settings=terms).text for name, terms in TENANTS.items()}
    api_key = f"api-key-{secrets.token_hex(6)}"
    with otlp_receiver() as traces:
        own_limit = ("--max-num-queued-reqs", str(MOST_QUEUED), *SEATS, "--scheduling-policy", "priority")
        flags = (*ONE_PROCESS, *own_limit, "--api-key", api_key, *_PRINTED, "--otlp-traces-endpoint", traces.endpoint)
        started = {"HEADWAY_PRESET": "balanced", "HEADWAY_WARMUP": "0"}
        counted = {"HEADWAY_KEYS_FILE": path, "HEADWAY_USAGE_DB": str(folder / "usage.db")}
        server = RunningServer.plain_vllm(
            folder / "server.log", *flags, **started, **counted, **_ACCESS, **_PRINTS, **ONE_THREAD
        )
        server.access_log = True
        with server:
            yield StrictServer(server, path, keys, api_key, traces)
