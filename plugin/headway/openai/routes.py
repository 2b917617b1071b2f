"""Every route of vLLM 0.32 with what Headway knows of it. A route that the table lacks is closed.

The routes are those of vLLM's entrypoints, of its development mode and of what its flags mount; SageMaker's are those
of the ``model_hosting_container_standards`` package. A test compares the table with the source of the installed vLLM.

The whole path decides the access (``http/access``). The end of the path finds all other columns, for a proxy may add a
prefix and an operator may open another version of a route.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

#: The method of a websocket route in the table.
WEBSOCKET: Final = "WEBSOCKET"
#: Where a scope keeps the route of its request.
_ROUTE: Final = "headway.route"


class RouteAccess(StrEnum):
    """The credential that a request needs to pass the route guard."""

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


class BodySize(StrEnum):
    """The content that the body of a request may have, which bounds its bytes (``http/limits/bounds``)."""

    MEDIA = "media"
    """Images, audio or tensors."""
    TEXT = "text"
    """Text or token ids."""
    ONE_TEXT = "one_text"
    """One text, which may be longer than any prompt; a tokeniser takes about 90 bytes for each byte."""
    SMALL = "small"
    """Neither media nor text."""
    FILE = "file"
    """A file of requests, which goes to the disk as it comes."""


class Seats(StrEnum):
    """The seats that a request takes at the front of several instances."""

    EACH = "each"
    """A seat for each sequence."""
    ONE = "one"
    """One seat in all: no sequence grows, however long the list of inputs is."""
    NONE = "none"
    """No seat: any healthy instance answers at once."""
    NOT_FORWARDED = "not_forwarded"
    """The front has no such route."""


class Api(StrEnum):
    """The form of errors, of the events of a stream and of the usage."""

    OPENAI = "openai"
    RESPONSES = "responses"
    ANTHROPIC = "anthropic"


@dataclass(frozen=True, slots=True)
class Route:
    """A path, its methods (None: any) and its access. A segment in braces stands for any one segment.

    ``prompts`` are the fields that may hold several prompts, ``prefix`` those of the prompt in the order in which a
    chat template renders them. ``limit`` names the usual limit of the output, which may lack where it is not
    ``limit_needed``. ``sampling``: it stands in ``sampling_params``, as the number of answers does. ``form``: the body
    may be a form. ``unread``: vLLM counts tokens and generates nothing, so that the admission middleware passes the
    request on unread.
    """

    path: str
    methods: frozenset[str] | None
    access: RouteAccess
    body: BodySize = BodySize.SMALL
    seats: Seats = Seats.NOT_FORWARDED
    prompts: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    limit: str = "max_tokens"
    limit_needed: bool = False
    sampling: bool = False
    api: Api = Api.OPENAI
    form: bool = False
    unread: bool = False

    def allows(self, method: str) -> bool:
        """Whether the route has this method; HEAD is allowed where GET is."""
        return self.methods is None or ("GET" if method == "HEAD" else method) in self.methods


#: Stands for a path that the table lacks.
UNKNOWN: Final = Route("", frozenset(), RouteAccess.OPERATOR)


def _routes(access: RouteAccess, methods: str, *paths: str, **columns: Any) -> Iterator[Route]:
    """Routes that differ in their paths only."""
    return (Route(path, frozenset(methods.split()), access, **columns) for path in paths)


def _posts(body: BodySize, *paths: str, **columns: Any) -> Iterator[Route]:
    """Inference routes with a body."""
    return _routes(RouteAccess.INFERENCE, "POST", *paths, body=body, **columns)


_TEXTS: Final = ("prompt", "prompt_embeds")
_BATCHES: Final = ("messages",)

ROUTES: Final = (
    *_routes(RouteAccess.OPEN, "GET", "/health", "/metrics"),
    *_routes(RouteAccess.OPEN, "GET", "/version", seats=Seats.NONE),
    *_routes(RouteAccess.OPEN, "GET POST", "/ping"),
    *_posts(BodySize.TEXT, "/v1/completions", seats=Seats.EACH, prompts=_TEXTS, prefix=("prompt",)),
    *_posts(BodySize.MEDIA, "/v1/chat/completions", seats=Seats.EACH, prefix=("messages",)),
    *_posts(BodySize.MEDIA, "/v1/chat/completions/batch", prompts=_BATCHES),
    *_posts(
        BodySize.MEDIA, "/v1/responses",
        seats=Seats.EACH, prefix=("instructions", "input"), limit="max_output_tokens", api=Api.RESPONSES,
    ),
    *_posts(
        BodySize.MEDIA, "/v1/messages",
        seats=Seats.EACH, prefix=("system", "messages"), limit_needed=True, api=Api.ANTHROPIC,
    ),
    *_posts(BodySize.MEDIA, "/v1/messages/count_tokens", seats=Seats.NONE, api=Api.ANTHROPIC, unread=True),
    *_posts(BodySize.MEDIA, "/v1/messages/render", api=Api.ANTHROPIC),
    *_posts(BodySize.MEDIA, "/inference/v1/generate", seats=Seats.EACH, prefix=("token_ids",), sampling=True),
    *_posts(BodySize.MEDIA, "/invocations", prompts=_TEXTS + _BATCHES),  # the body of any route
    *_posts(BodySize.MEDIA, "/v1/audio/transcriptions", "/v1/audio/translations", seats=Seats.EACH, form=True),
    *_posts(
        BodySize.MEDIA, "/v1/embeddings", "/pooling", "/classify", "/score", "/v1/score", "/rerank", "/v1/rerank",
        "/v2/rerank", seats=Seats.ONE,
    ),
    *_posts(
        BodySize.MEDIA, "/v1/chat/completions/render", "/v1/responses/render", "/cohere/v2/chat",
        "/cohere/v2/chat/render", "/v2/embed",
    ),
    *_posts(
        BodySize.TEXT, "/v1/completions/render", "/v1/completions/derender", "/v1/chat/completions/derender",
        "/generative_scoring", "/v1/systemone", "/v1/decisions",
    ),
    *_posts(BodySize.ONE_TEXT, "/tokenize", "/detokenize", seats=Seats.NONE),
    *_posts(BodySize.SMALL, "/v1/responses/{response_id}/cancel"),
    *_routes(RouteAccess.INFERENCE, "GET", "/v1/models", seats=Seats.NONE),
    *_routes(
        RouteAccess.INFERENCE, "GET", "/v1/responses/{response_id}", "/tokenizer_info", "/load",
        "/docs", "/docs/oauth2-redirect", "/redoc", "/openapi.json", "/static/{file}",
    ),
    *_routes(RouteAccess.INFERENCE, WEBSOCKET, "/v1/realtime"),
    *_routes(
        RouteAccess.OPERATOR, "POST",
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
    *_routes(RouteAccess.OPERATOR, "DELETE", "/adapters/{adapter_name}"),
    *_routes(
        RouteAccess.OPERATOR, "GET", "/server_info", "/is_sleeping", "/is_paused", "/weight_info", "/get_world_size",
        "/kv_event_sources", "/fault_tolerance/status",
    ),
)  # fmt: skip

#: OpenAI's files and batches, which vLLM does not have: Headway answers them itself (``batches``).
BATCH_ROUTES: Final = (
    *_routes(RouteAccess.INFERENCE, "GET POST", "/v1/files", body=BodySize.FILE, unread=True),
    *_routes(RouteAccess.INFERENCE, "GET DELETE", "/v1/files/{file_id}"),
    *_routes(RouteAccess.INFERENCE, "GET", "/v1/files/{file_id}/content", "/v1/batches/{batch_id}"),
    *_routes(RouteAccess.INFERENCE, "GET POST", "/v1/batches", unread=True),
    *_routes(RouteAccess.INFERENCE, "POST", "/v1/batches/{batch_id}/cancel", unread=True),
)

#: The routes by whole path, and by the rest of it after the version or the maker: ``/chat/completions``.
_BY_END: Final = {
    end: route
    for route in reversed((*ROUTES, *BATCH_ROUTES))
    for end in (route.path.removeprefix("/v1").removeprefix("/cohere"), route.path)
    if "POST" in (route.methods or ()) and route.access is RouteAccess.INFERENCE
}
_MOST_SEGMENTS: Final = max(end.count("/") for end in _BY_END)


def route_at(path: str) -> Route:
    """The route that a path ends with, UNKNOWN where there is none. Costs the length of the path.

    The route says what a request may hold and how it is answered, never which senders it is open to.
    """
    path = path.rstrip("/")
    found = _BY_END.get(path)
    if found is not None:
        return found
    at = [len(path)]
    while len(at) <= _MOST_SEGMENTS and (start := path.rfind("/", 0, at[-1])) >= 0:
        at.append(start)
    return next((_BY_END[path[start:]] for start in reversed(at) if path[start:] in _BY_END), UNKNOWN)


def route_of(scope: MutableMapping[str, Any]) -> Route:
    """The route of a request, looked up once."""
    found: Route | None = scope.get(_ROUTE)
    if found is None:
        found = scope[_ROUTE] = route_at(scope["path"])
    return found


_LAST_LINES: Final = (
    b"data: [DONE]",
    b"event: message_stop",
    b"event: response.completed",
    b"event: response.incomplete",
)


def ends_stream(part: bytes) -> bool:
    """Whether these bytes of a stream have its last event. Costs O(bytes).

    Only the beginning of a line tells: within the data a client's own words may say the same.
    """
    return part.startswith(_LAST_LINES) or any(b"\n" + last in part for last in _LAST_LINES)
