"""The environment variables of Headway, and the ones that look like a misspelling of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Final

from headway_tools.doctor.finding import Finding, ok, warn

PREFIX: Final = "HEADWAY_"

#: Every variable that the server, the commands or the dashboard read, without the prefix.
KNOWN: Final = frozenset({
    "ADMIN_TOKEN", "ADMIN_TOKEN_FILE", "VIEWER_TOKEN", "VIEWER_TOKEN_FILE", "URL",
    "PRESET", "PRESET_DIR", "WARMUP", "STATUS_CODES", "MAX_REQUEST_SEATS", "CACHE_DIR",
    "MAX_HEADER_BYTES", "MAX_BODY_BYTES", "MAX_BODIES_BYTES", "BODY_TIMEOUT_S", "MIN_BODY_BYTES_PER_S",
    "FALLBACK_URL", "FALLBACK_MODEL", "FALLBACK_API_KEY", "FALLBACK_API_KEY_FILE", "FALLBACK_TIMEOUT_S",
    "FALLBACK_REPLY",
    "KEYS_FILE", "OPEN_ROUTES", "CLOSED_ROUTES", "TRUSTED_PROXIES", "ALLOW_DEV_MODE", "CLIENT_PRIORITY",
    "INSTANCE_KEY", "INSTANCE_KEY_FILE", "SCALE_MIN", "SCALE_MAX", "SCALE_HOURS_A_DAY", "SCALE_START_S",
    "VLLM_WAITING",
    "MAX_CONNECTIONS", "MAX_CONNECTIONS_PER_ADDRESS", "MAX_HEADER_FIELDS",
    "MAX_SEQUENCES", "MAX_PROMPTS", "MAX_OUTPUT_TOKENS", "MAX_LOGPROBS", "MAX_STOPS", "MAX_LOGIT_BIAS",
    "MAX_GRAMMAR_BYTES", "MAX_GRAMMAR_SECONDS", "MAX_PROMPT_LOGPROBS", "MAX_TOOLS",
    "VALIDATOR", "VALIDATOR_TIMEOUT_S", "CHECK_RESULT",
    "REQUIRE_REASON", "AUDIT_FILE", "AUDIT_FILE_BYTES",
    "LOG_CONTENT", "LOG_FORMAT", "PATCHES_OFF",
    "DASHBOARD_USER_HEADER", "DASHBOARD_TRUSTED_PROXIES", "DASHBOARD_LOOPBACK_ONLY",
    "PROMETHEUS_URL", "REFRESH_S",
})  # fmt: skip
#: Set by Headway itself for the processes that it starts.
INTERNAL: Final = frozenset({"ENGINE_PROGRESS", "DEATH_CAUSE", "SERVER_MARKS", "BEHIND_QUEUE"})


def check_variables(environment: Mapping[str, str]) -> Iterator[Finding]:
    """A variable with Headway's prefix that nothing reads is probably a misspelt one."""
    known = KNOWN | INTERNAL
    given = sorted(name.removeprefix(PREFIX) for name in environment if name.startswith(PREFIX))
    unknown = [name for name in given if name not in known]
    for name in unknown:
        close = difflib.get_close_matches(name, sorted(KNOWN), n=1)
        advice = f"did you mean {PREFIX}{close[0]}?" if close else "remove it, or correct its name"
        yield warn(f"{PREFIX}{name}: no such variable; it has no effect", advice)
    if not unknown:
        yield ok(f"{len(given)} variables with the prefix {PREFIX}, all known")
