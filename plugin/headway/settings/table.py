"""The table of environment variables. A new one is an entry here, and the place that reads it."""

from __future__ import annotations

from typing import Any, Final

from headway.settings.kinds import Given, SecretVariable, Variable, choice, flag, listed, seconds, text, verbatim, whole
from headway_policies.scaling import Scaling

MIN_TOKEN_CHARS: Final = 32
MAX_TOKEN_CHARS: Final = 512
_TOKEN: Final = (MIN_TOKEN_CHARS, MAX_TOKEN_CHARS, "; make one with: openssl rand -hex 32")
_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
_FUNCTION: Final = "package.module:function"
_NETWORKS: Final = "addresses and networks"


class _OfServer(Given):
    of = "server"

    preset = text("balanced", "name of a preset, or a TOML file", "a name or a file")
    preset_dir = text(None, "a folder of TOML presets to switch to", "a folder")
    admin_token = SecretVariable("token", "operator's token; turns the admin API on", *_TOKEN, usual="off")
    viewer_token = SecretVariable("token", "a token that only reads", *_TOKEN)
    keys_file = text(
        None, "the keys file: the tenant of each key, and the tenant's rights", "a file",
        usual="none: every client is the tenant `anonymous`",
    )  # fmt: skip
    trusted_proxies = listed("proxies that check their clients: their class and tenant headers count", _NETWORKS)
    open_routes = listed("unknown paths to open to inference keys", "paths")
    closed_routes = listed("open paths that need a key or a token from then on, such as `/metrics`", "paths")
    allow_dev_mode = flag(
        False, "`1` starts with `VLLM_SERVER_DEV_MODE=1` on a loopback address; its routes need the operator's token"
    )
    client_priority = choice(
        ("drop", "refuse"), "`refuse` answers 400 to a client that sends an engine priority; else it is ignored"
    )
    # OpenAI takes 2,048 inputs, 128 tools, and a schema whose names alone have 120,000 characters; vLLM 128 words.
    max_sequences = whole(64, "the most `n` or `best_of` of a request")
    max_prompts = whole(2048, "the most prompts, inputs or documents in one body")
    max_output_tokens = whole(None, "the most `max_tokens`, by any of its names")
    max_logprobs = whole(128, "the most log probabilities for each token")
    max_prompt_logprobs = whole(
        8192,
        "the most log probabilities over a whole prompt: its tokens times `prompt_logprobs`, or `logprobs` with `echo`",
    )
    max_stops = whole(128, "the most stop strings, stop tokens or bad words")
    max_logit_bias = whole(1024, "the most entries of `logit_bias`")
    max_grammar_bytes = whole(128 * _KIB, "the largest schema, grammar or pattern of a structured output")
    max_grammar_seconds = whole(
        2, "the processor time to compile a schema, grammar or pattern; `0`: no check before the engine", 0
    )
    max_tools = whole(128, "the most tools")
    validator = text(None, "called with each request before it is queued", _FUNCTION)
    check_result = text(None, "called with each JSON answer, and at the end of each stream", _FUNCTION)
    check_result_bytes = whole(
        16 * _MIB, "the longest checked stream; a longer stream ends there, with an error event", 64 * _KIB
    )
    validator_timeout_s = seconds(1.0, "the time-out of a call of either")
    max_header_fields = whole(128, "the most header fields of a request", least=16)
    max_connections = whole(8192, "the most open connections")
    max_connections_per_address = whole(
        None, "the most open connections of an address (an IPv6 network of 64 bits counts as one); not behind a proxy"
    )
    require_reason = flag(False, "`1` refuses a command without a reason and a name")
    audit_file = text(None, "a file to which each line of the audit is appended as JSON", "a file")
    audit_file_bytes = whole(10 * _MIB, "the size at which that file is rotated; five older ones are kept", 64 * _KIB)
    usage_db = text(None, "an SQLite database of the use of each tenant; made if missing", "a file")
    usage_prices = text(None, "a TOML file of prices by class and model, for a column of costs", "a file")
    batch_dir = text(
        None, "the folder of `/v1/files` and `/v1/batches`, of this server alone; made if missing",
        "a folder", usual="none: both routes are off",
    )  # fmt: skip
    batch_file_bytes = whole(512 * _MIB, "the largest uploaded file there", _KIB)
    batch_bytes = whole(16 * _KIB * _MIB, "all files there together: beyond that size uploads are refused", _KIB)
    batch_tenant_bytes = whole(
        None, "the files of one tenant there: an upload beyond that is refused", _KIB,
        usual="half of `HEADWAY_BATCH_BYTES`",
    )  # fmt: skip
    log_format = choice(("text", "json"), "`json`: each log line is a JSON object with the ids of its request")
    patches_off = listed("[patches](patches.md) of vLLM to leave out", "names")
    log_content = flag(False, "`1` lets prompts and outputs into the log")
    warmup = flag(True, "`0` skips the warm-up")
    cache_dir = verbatim(
        "the learnt figures of an adaptive limit for the next start, and a router's arrivals of the last days and "
        "instance hours of today; empty: not kept",
        "a folder", "`headway` beside vLLM's compile cache",
    )  # fmt: skip
    status_codes = choice(("headway", "vllm"), "`vllm` answers a refusal for load with vLLM's 503 instead of 429")
    max_header_bytes = whole(32 * _KIB, "all header fields of a request together", least=_KIB)
    max_body_bytes = whole(32 * _MIB, "the largest body of any route but `/v1/files`; lowers the bounds of all")
    max_bodies_bytes = whole(
        128 * _MIB,
        "all received bodies before the queue together, no less than one body; up to a quarter more in memory",
    )
    body_timeout_s = seconds(20.0, "the time to wait for a client that sends nothing, in the head or in the body")
    min_body_bytes_per_s = whole(
        8 * _KIB, "the rate at which bytes of a body extend that time, at most to its full length"
    )
    max_request_seats = whole(
        None, "the most sequences one request may ask for (prompts x `n`)", usual="all seats of the engine"
    )
    vllm_waiting = flag(False, "`1` adds Headway's queue to `vllm:num_requests_waiting`, for balancers that read it")
    fallback_url = text(
        None, "the base of an OpenAI-compatible API for diverted requests, such as `http://127.0.0.1:8001/v1`"
    )
    fallback_model = text(None, "the model at that API; needed with the URL")
    fallback_api_key = SecretVariable("key", "its key; a client's own key never goes there")
    fallback_timeout_s = seconds(60.0, "the time-out of an answer there")
    fallback_reply = verbatim("in place of another model: a text of at most 4096 characters for diverted requests")
    fallback_reply_late = listed("classes whose time-outs the fixed reply answers, on any rung", "names")


class _OfRouter(Given):
    of = "route"

    instance_key = SecretVariable("key", "the API key of the instances; no key of a client is sent to them")
    scale_min = whole(1, "the fewest instances that `headway_desired_instances` asks for")
    scale_max = whole(None, "the most; needed with `dns+http://`", usual="all of `--instances`")
    scale_hours_a_day = Variable[float | None](
        None, "the most instance hours of a day in UTC; after them `HEADWAY_SCALE_MIN` applies", float,
        "a number of hours",
    )  # fmt: skip
    scale_start_s = seconds(
        Scaling().start_s, "the start-up time of an instance; its request comes so long before a daily peak"
    )


class _OfDashboard(Given):
    """The dashboard imports nothing of the server, so it reads these itself, and shows wrong values on its page."""

    of = "dashboard"

    url = listed("the server of commands and dashboard; for the dashboard up to 32", "URLs", "`http://127.0.0.1:8000`")
    prometheus_url = text(None, "read the series from this Prometheus instead of the ring in memory", "a URL")
    refresh_s = text(None, "seconds between refreshes", "a number from 0.5 to 60", "2")
    runbooks_url = text(None, "the page that alerts link to, with a section for each alert", "a URL")
    dashboard_user_header = text(
        None, "the header in which a proxy names the logged-in user, such as `X-Forwarded-User`", "a name"
    )
    dashboard_trusted_proxies = listed("the proxies that may send that header", _NETWORKS)
    dashboard_loopback_only = text(
        None, "only this machine reaches the page, although it listens on another address (a container)", "1"
    )


class _OfChildren(Given):
    of = "child processes"

    behind_queue = flag(False, "set by `headway serve` for vLLM's own launcher behind its queue; never set it yourself")
    death_cause = verbatim("set by a server for its engine; never set it yourself", "a file")
    engine_progress = verbatim("set by a server for its engine; never set it yourself", "a file")
    server_marks = verbatim("set by a server for the processes that it starts; never set it yourself")


class Environment(_OfServer, _OfRouter, _OfDashboard, _OfChildren):
    """The variables, read and checked one by one as they are asked for. Raises HeadwayError for a wrong value."""


VARIABLES: Final[tuple[Variable[Any], ...]] = tuple(
    variable for part in Environment.__bases__ for variable in vars(part).values() if isinstance(variable, Variable)
)
SECRET_NAMES: Final = tuple(
    name for variable in VARIABLES if isinstance(variable, SecretVariable) for name in variable.names
)
