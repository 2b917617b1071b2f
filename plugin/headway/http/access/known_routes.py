"""Every route of vLLM 0.32 and of Headway, with the access it needs. What is not in here is closed.

vLLM's routes are those of its entrypoints, of its development mode and of what its flags mount; SageMaker's are those
of the ``model_hosting_container_standards`` package. A test compares the table with the source of the installed vLLM.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headway.api import routes as admin

#: The method of a websocket route in the table.
WEBSOCKET: Final = "WEBSOCKET"


class RouteAccess(StrEnum):
    """What a request needs to pass the route guard."""

    OPEN = "open"
    """Nothing: probes, metrics, the version."""
    CLOSED = "closed"
    """An open route that the operator has closed: an inference key, or a token of the admin API."""
    INFERENCE = "inference"
    """An inference key where keys are configured: it generates, embeds, tokenises, or describes the model."""
    OPERATOR = "operator"
    """The operator's token, with and without keys: it changes the server's state, or shows its inside."""
    ADMIN = "admin"
    """Passed through: the handlers of the admin API check their own tokens."""


@dataclass(frozen=True, slots=True)
class KnownRoute:
    """One path, its methods (None: any) and its access. A segment in braces stands for any one segment."""

    path: str
    methods: frozenset[str] | None
    access: RouteAccess

    def allows(self, method: str) -> bool:
        """Whether the route has this method; HEAD is allowed where GET is."""
        return self.methods is None or ("GET" if method == "HEAD" else method) in self.methods


_OPEN: Final = {
    "GET": ("/headway/front", "/health", "/metrics", "/ping", "/version"),
    "POST": ("/ping",),
}
_INFERENCE: Final = {
    "POST": (
        "/v1/completions", "/v1/completions/render", "/v1/completions/derender",
        "/v1/chat/completions", "/v1/chat/completions/batch",
        "/v1/chat/completions/render", "/v1/chat/completions/derender",
        "/v1/responses", "/v1/responses/render", "/v1/responses/{response_id}/cancel",
        "/v1/messages", "/v1/messages/count_tokens", "/v1/messages/render",
        "/cohere/v2/chat", "/cohere/v2/chat/render",
        "/inference/v1/generate", "/invocations", "/generative_scoring", "/v1/systemone",
        "/v1/embeddings", "/v2/embed", "/pooling", "/classify",
        "/score", "/v1/score", "/rerank", "/v1/rerank", "/v2/rerank",
        "/v1/audio/transcriptions", "/v1/audio/translations",
        "/tokenize", "/detokenize",
    ),
    "GET": (
        "/v1/models", "/v1/responses/{response_id}", "/tokenizer_info", "/load",
        "/docs", "/docs/oauth2-redirect", "/redoc", "/openapi.json", "/static/{file}",
    ),
    WEBSOCKET: ("/v1/realtime",),
}  # fmt: skip
_OPERATOR: Final = {
    "POST": (
        "/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/adapters",
        "/start_profile", "/stop_profile",
        "/scale_elastic_ep", "/is_scaling_elastic_ep", "/fault_tolerance/apply",
        "/reset_prefix_cache", "/reset_mm_cache", "/reset_encoder_cache", "/release_kv_cache_memory",
        "/sleep", "/wake_up", "/pause", "/resume",
        "/abort_requests", "/inference/v1/abort_requests", "/collective_rpc",
        "/init_weight_transfer_engine", "/shutdown_weight_transfer_engine", "/weight_checker",
        "/start_weight_update", "/start_draft_weight_update", "/update_weights", "/finish_weight_update",
        "/update_weight_version",
    ),
    "DELETE": ("/adapters/{adapter_name}",),
    "GET": (
        "/server_info", "/is_sleeping", "/is_paused", "/weight_info", "/get_world_size", "/kv_event_sources",
        "/fault_tolerance/status",
    ),
}  # fmt: skip


def known_routes() -> Iterator[KnownRoute]:
    """All of them, each path once."""
    for access, by_method in (
        (RouteAccess.OPEN, _OPEN),
        (RouteAccess.INFERENCE, _INFERENCE),
        (RouteAccess.OPERATOR, _OPERATOR),
    ):
        for path in dict.fromkeys(path for paths in by_method.values() for path in paths):
            methods = frozenset(method for method, paths in by_method.items() if path in paths)
            yield KnownRoute(path, methods, access)
    for path in dict.fromkeys(route.path for route in admin.TABLE):
        probe = all(route.role is None for route in admin.TABLE if route.path == path)
        yield KnownRoute(path, frozenset({"GET"}) if probe else None, RouteAccess.OPEN if probe else RouteAccess.ADMIN)
