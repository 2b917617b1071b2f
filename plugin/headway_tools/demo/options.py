"""The demo's options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
DEFAULT_MODEL = ".models/SmolLM2-135M-Instruct"
DEFAULT_RATE = 1.5


@dataclass(frozen=True, slots=True)
class Options:
    """The demo's settings. ``exit_after_s`` None means until Ctrl-C."""

    model: str
    preset: str
    server_port: int
    dashboard_port: int
    rate_per_s: float
    exit_after_s: float | None
    as_json: bool

    @property
    def server_url(self) -> str:
        """The URL of the OpenAI API, the metrics and the admin API."""
        return f"http://{HOST}:{self.server_port}"

    @property
    def dashboard_url(self) -> str:
        """The URL of the dashboard."""
        return f"http://{HOST}:{self.dashboard_port}"

    @property
    def model_name(self) -> str:
        """The name clients use for the model."""
        name = Path(self.model).resolve().name
        return "smollm2" if name.lower().startswith("smollm2") else name
