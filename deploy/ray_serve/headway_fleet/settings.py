"""The settings of a fleet: plain values, so that they fit into the arguments of a Ray Serve configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """``serve`` are the words after ``headway serve``: the model, and flags of vLLM and Headway; ``--host`` and
    ``--port`` are added. ``environment`` are variables of the servers. ``resources`` are Ray's actor options for one
    replica, such as ``{"num_gpus": 1}``.

    ``scaling`` are settings of ``headway_policies.scaling.Scaling`` by name, bounds and times among them; whether a
    queue is late or an objective missed is judged by the servers.
    ``period_s`` is the time between two readings of a server. ``drain_s`` is how long a replica that is removed may
    take to finish what waits and runs there; ``start_s`` how long a server may take until it is ready.
    ``route_s`` is how long a request waits for a replica while there is none. ``folder`` is where each replica names
    its server and keeps its log; none where it is not set. ``host`` is the address that the servers listen on.
    """

    serve: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, Any] = field(default_factory=dict)
    scaling: Mapping[str, Any] = field(default_factory=dict)
    period_s: float = 1.0
    drain_s: float = 120.0
    start_s: float = 1800.0
    route_s: float = 30.0
    fronts: int = 1
    folder: str | None = None
    host: str = "127.0.0.1"

    def __post_init__(self) -> None:
        if isinstance(self.serve, str):
            raise ValueError("serve is a list of words: serve = [MODEL, FLAGS...]")
        if not self.serve:
            raise ValueError("a fleet needs a model: serve = [MODEL, FLAGS...]")
        for name in ("period_s", "drain_s", "start_s", "route_s", "fronts"):
            if not (value := getattr(self, name)) > 0:
                raise ValueError(f"{name} must be above 0, not {value}")
        if set(words := {"--host", "--port"}) & {word.partition("=")[0] for word in self.serve}:
            raise ValueError(f"{' and '.join(sorted(words))} are chosen by each replica")

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> FleetSettings:
        """Settings as a configuration file has them. Raises ValueError for one that does not exist."""
        unknown = sorted(set(given) - set(cls.__slots__))
        if unknown:
            raise ValueError(f"a fleet has no setting {', '.join(unknown)}")
        serve = given.get("serve", ())
        words = serve if isinstance(serve, str) else tuple(map(str, serve))
        variables = {name: str(value) for name, value in given.get("environment", {}).items()}
        return cls(**{**given, "serve": words, "environment": variables})
