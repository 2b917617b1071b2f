"""The table of bounds on untrusted input, made from the constants of the code."""

from __future__ import annotations

from headway import audit
from headway.admission import engine_calls as calls
from headway.admission import prefix_hashes
from headway.api import client, secret_text
from headway.audit import audit_file
from headway.fallback import client as upstream
from headway.fallback import fixed_reply
from headway.http.access import lockout
from headway.http.admin import callers, commands, tokens
from headway.http.inference import request_caps as caps
from headway.http.inference import request_info
from headway.http.limits import bounds, json_shape
from headway.http.limits.bounds import Bounds
from headway.keys import parse
from headway.keys import schema as key_schema
from headway.openai.routes import route_at
from headway.operator import presets as catalogue
from headway.settings import Environment
from headway.vllm_adapter.grammars.frames import MOST_MEAN_S, Limits
from headway_dashboard import server_client, settings
from headway_dashboard.sources import exposition, prometheus, ring, scrape
from headway_policies.entitlement import retry_budget
from headway_policies.prediction import estimators as prediction
from headway_policies.prediction import prefix_cache
from headway_policies.preset import errors as issues
from headway_policies.preset import extends as inheritance
from headway_policies.preset import model as preset
from headway_policies.queueing import fair_share as fairness
from headway_policies.request import PREFIX_TOKENS
from headway_simulator.traffic import trace
from headway_site.tables import data, page, table
from headway_tools.console import metrics_page

VALUES = request_info.MAX_VALUE_CHARS
MIB, KIB = 1024 * 1024, 1024


def _size(size_bytes: int) -> str:
    """Bytes as the table writes them: whole MiB, else whole KiB."""
    unit, name = (MIB, "MiB") if size_bytes % MIB == 0 else (KIB, "KiB")
    return f"{size_bytes // unit} {name}"


def body(path: str, limits: Bounds | None = None) -> int:
    """The largest body on a path, in bytes."""
    return (limits or LIMITS).body_bytes(route_at(path))


JSON_BOUNDS = f"{upstream.MAX_JSON_ELEMENTS} elements, {upstream._MAX_DIGITS} digits"
LIMITS, CAPS = Bounds(), caps.USUAL_CAPS
#: The bound of each kind of input.
BOUNDS = {
    "the request target, path and query": _size(bounds.MAX_TARGET_BYTES),
    "all header fields; trailers": f"`HEADWAY_MAX_HEADER_BYTES`, {_size(LIMITS.max_header_bytes)}; while they come in, "
    "one read of the socket more",
    "the value of a header that Headway reads": f"{request_info.MAX_CHARS} characters; "
    f"tenant {VALUES['x-headway-tenant']}, content type {VALUES['content-type']}",
    "a body that may carry images, sounds or tensors (chat, responses, messages, audio, pooling, `/invocations`)": (
        f"`HEADWAY_MAX_BODY_BYTES`, {_size(body('/v1/chat/completions'))}"
    ),
    "a body of text or token ids (`/v1/completions` and the like)": _size(body("/v1/completions")),
    "one text to count (`/tokenize`, `/detokenize`)": f"{bounds._BYTES_PER_TOKEN} bytes for each token of the context, "
    f"{_size(body('/tokenize', Bounds(context_tokens=1)))} to {_size(body('/tokenize'))}",
    "any other body": _size(body("/anything")),
    "the structure of a JSON body, outside its strings": f"{json_shape.MAX_BRACKETS} objects and arrays, "
    f"{json_shape.MAX_STRINGS} strings, {json_shape.MAX_COMMAS} elements, {_size(json_shape.MAX_BARE_BYTES)}, "
    f"{json_shape.MAX_DEPTH} levels; UTF-8",
    "all bodies together, until queued or answered": f"`HEADWAY_MAX_BODIES_BYTES`, {_size(LIMITS.max_bodies_bytes)}",
    "time of head and body": f"`HEADWAY_BODY_TIMEOUT_S`, {LIMITS.body_timeout_s:g} s, extended by bytes at "
    f"`HEADWAY_MIN_BODY_BYTES_PER_S`, {LIMITS.min_body_bytes_per_s}",
    "the id of a request": f"{calls.MAX_ID_CHARS} characters, printable",
    'the beginning of a prompt that is hashed, under `inside = "prefix"` only': f"{len(PREFIX_TOKENS)} hashes of "
    f"{prefix_hashes.MAX_TEXT_BYTES} bytes or {PREFIX_TOKENS[-1]} token ids",
    "blocks in the model of the prefix cache": f"one for each {prefix_cache._LEAST_TOKENS} tokens of KV space",
    "tenants without waiting requests": f"{fairness.RECENT}",
    "lengths by tenant, class and size": f"{prediction._KEYS} kinds of {prediction._HISTORY} lengths",
    "`Authorization` of the admin API": f"{tokens.MAX_HEADER_CHARS} characters",
    "a command to the admin API": f"{_size(commands.MAX_BODY_BYTES)} within {commands.BODY_WITHIN_S:g} s",
    "a query of the admin API": f"{callers.MAX_QUERY_BYTES} bytes",
    "addresses with wrong keys; tenants with a retry budget": f"{lockout.MAX_ADDRESSES}; {retry_budget.TENANTS}",
    "the keys file": f"{_size(parse.MAX_FILE_BYTES)}, {key_schema.MAX_KEYS} keys",
    "open connections": f"`HEADWAY_MAX_CONNECTIONS`, {LIMITS.max_connections}",
    "a field of the audit, and of its log line": f"{audit.MAX_CHARS} characters, printable",
    "lines of the audit": f"{audit.MAX_CHANGES} changes, {audit.MAX_REFUSED} refused, "
    f"{audit.MAX_STRANGERS} without a token (an IPv6 network of 64 bits counts as one address); in the file "
    f"{_size(audit_file.MAX_FILE_BYTES)} and {audit_file.KEPT_FILES} older ones, in that of strangers "
    f"{audit_file.KEPT_STRANGERS}",
    "a grammar, schema or pattern that a request lets the engine compile": (
        f"`HEADWAY_MAX_GRAMMAR_SECONDS`, {Limits().processor_s} s of processor time, {_size(Limits().memory_bytes)}; "
        f"one of a tenant at a time; {1e3 * MOST_MEAN_S:g} ms a token"
    ),
    "`stop`, `stop_token_ids`, `bad_words`": f"`HEADWAY_MAX_STOPS`, {CAPS.stops}, of {_size(caps.MAX_STOP_BYTES)} "
    "together",
    "`logit_bias`": f"`HEADWAY_MAX_LOGIT_BIAS`, {CAPS.logit_bias}",
    "`tools`": f"`HEADWAY_MAX_TOOLS`, {CAPS.tools}",
    "`allowed_token_ids`": f"{caps.MAX_ALLOWED_TOKENS}",
    "a repeated pattern that is looked for (`repetition_detection`)": f"{caps.MAX_REPEATED_TOKENS} tokens, "
    f"{caps.MAX_REPEATED_TIMES} times",
    "alternatives listed at each token, of all answers to a prompt": f"{caps.MAX_LISTED}, and `HEADWAY_MAX_LOGPROBS`, "
    f"{CAPS.logprobs}, of one answer",
    "items of a conversation in `input`": f"{caps.MAX_ITEMS}",
    "log probabilities over a whole prompt": "`HEADWAY_MAX_PROMPT_LOGPROBS`, "
    f"{Environment.max_prompt_logprobs.default}",
    "headers that trace a request": ", ".join(f"`{name}` {most}" for name, most in upstream.TRACING_CHARS.items()),
    "a request that is sent on": f"{_size(upstream.MAX_REQUEST_BYTES)}, {JSON_BOUNDS}",
    "an answer of the other model": f"{_size(upstream.MAX_ANSWER_BYTES)}, {JSON_BOUNDS}",
    "one event of its stream": _size(upstream.MAX_EVENT_BYTES),
    "all of both in memory at once": _size(upstream.MAX_HELD_BYTES),
    "choices of a fixed reply; the model's name in it": f"{fixed_reply.MAX_CHOICES}; "
    f"{fixed_reply.MAX_MODEL_CHARS} characters",
    "a line of the head of its answer": f"{upstream.MAX_HEADER_BYTES} bytes",
    "a preset file, and one of its lines": f"{_size(inheritance.MAX_FILE_BYTES)} of a regular file, "
    f"{inheritance.MAX_LINE_CHARS} characters",
    "presets that extend one another": f"{inheritance.MAX_PARENTS}",
    "classes of a preset": f"{preset._MAX_CLASSES}",
    "errors reported of a preset": f"{issues.MAX_ISSUES}",
    "presets in the operator's folder": f"{catalogue.MAX_FILES}",
    "a file with a token or a key": f"{_size(secret_text.MAX_FILE_BYTES)} of a regular file",
    "a trace, and one of its lines": f"{trace.MAX_ROWS} requests, {trace.MAX_LINE_CHARS} characters",
    "a scrape, read by the dashboard": f"{_size(scrape.MAX_ANSWER_BYTES)} within "
    f"{scrape.CONNECT_TIMEOUT_S + scrape.READ_TIMEOUT_S:g} s, {exposition.MAX_LINE_CHARS} characters a line, "
    f"{ring._MAX_SERIES} series; {_size(8 * ring._MAX_VALUES)} kept of each of {settings.MAX_SERVERS} servers",
    "a scrape, read by a command": f"{_size(metrics_page.MAX_METRICS_BYTES)} within {sum(metrics_page.TIMEOUT_S):g} s, "
    f"{metrics_page.MAX_LINE_CHARS} characters a line",
    "an answer of Prometheus": f"{_size(prometheus.MAX_ANSWER_BYTES)} within {sum(prometheus.TIMEOUT_S):g} s",
    "an answer of the admin API": f"{_size(client.MAX_ANSWER_BYTES)} within {sum(client.TIMEOUT_S):g} s for a command, "
    f"{sum(server_client.TIMEOUT_S):g} s for the dashboard",
}


def bound_table() -> str:
    """The page of bounds: each input, its bound, and what happens beyond; KeyError where a row has no bound."""
    rows = data("bounds", "bound")
    known = {row["what"] for row in rows}
    if missing := BOUNDS.keys() - known:
        raise KeyError(f"bounds.toml lacks {sorted(missing)}")
    cells = [[row["what"], row.get("bound") or BOUNDS[row["what"]], row["beyond"] or "-", row["cost"] or "-"]
             for row in rows]  # fmt: skip
    return page(
        "Bounds of untrusted input",
        "Every byte from outside has a bound, and a cost in time and memory that grows at most linearly.",
        table(["what", "bound", "beyond it", "cost"], cells),
    )
