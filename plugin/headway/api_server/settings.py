"""The settings of a server, from its environment: read and checked before the engine is touched."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from headway.audit import AuditFile
from headway.errors import HeadwayError
from headway.fallback import FallbackTarget, target_from_environment
from headway.http import AdminRules, Bounds, RequestRules, Tokens
from headway.http.access import RouteTable, TrustedProxies
from headway.keys import KeysFile, keys_path
from headway.operator import PresetCatalogue
from headway.variables import whole_number
from headway_policies import Preset

_STATUS_CODES: Final = {"headway": HTTPStatus.TOO_MANY_REQUESTS, "vllm": HTTPStatus.SERVICE_UNAVAILABLE}
_USUAL_PRESET: Final = "balanced"
USUAL_GRAMMAR_S: Final = 2
USUAL_PROMPT_LOGPROBS: Final = 8192


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of an API server; ``keys_file`` None: there is none.

    ``vllm_waiting``: vLLM's count of waiting requests has the queue in it.
    """

    catalogue: PresetCatalogue
    preset: Preset
    tokens: Tokens
    admin_rules: AdminRules
    audit_file: AuditFile | None
    warm: bool
    queue_full_status: HTTPStatus
    bounds: Bounds
    request_rules: RequestRules
    route_table: RouteTable
    proxies: TrustedProxies
    keys_file: KeysFile | None
    max_request_seats: int | None
    grammar_s: int
    prompt_logprobs: int
    fallback: FallbackTarget | None
    vllm_waiting: bool

    @classmethod
    def from_environment(cls, instances: int | None = None) -> Settings:
        """Read everything, for one engine or for so many ``instances`` behind a router.

        Raises PresetError, UnknownPresetError, TokenError or HeadwayError in one line.
        """
        catalogue = PresetCatalogue(os.environ.get("HEADWAY_PRESET_DIR") or None, instances)
        path = keys_path()
        return cls(
            catalogue=catalogue,
            preset=catalogue.resolve(os.environ.get("HEADWAY_PRESET") or _USUAL_PRESET),
            tokens=Tokens.from_environment(),
            admin_rules=AdminRules.from_environment(),
            warm=_one_of("HEADWAY_WARMUP", {"1": True, "0": False}, usual="1"),
            queue_full_status=_one_of("HEADWAY_STATUS_CODES", _STATUS_CODES, usual="headway"),
            bounds=Bounds.from_environment(),
            request_rules=RequestRules.from_environment(),
            route_table=RouteTable.from_environment(),
            proxies=TrustedProxies.from_environment(),
            keys_file=None if path is None else KeysFile(path),
            max_request_seats=_max_request_seats(),
            grammar_s=grammar_s(),
            prompt_logprobs=most_prompt_logprobs(),
            fallback=target_from_environment(),
            vllm_waiting=_one_of("HEADWAY_VLLM_WAITING", {"1": True, "0": False}, usual="0"),
            audit_file=AuditFile.from_environment(),  # the last: it is a file that was opened
        )


def _one_of(variable: str, allowed: Mapping[str, Any], *, usual: str) -> Any:
    value = os.environ.get(variable) or usual
    if value not in allowed:
        raise HeadwayError(f"{variable}: one of {', '.join(allowed)} is needed, not {value[:40]!r}")
    return allowed[value]


def grammar_s() -> int:
    """Of processor time for one grammar, in seconds; 0: grammars are not checked. Raises HeadwayError."""
    return whole_number(os.environ, "HEADWAY_MAX_GRAMMAR_SECONDS", USUAL_GRAMMAR_S, least=0)


def most_prompt_logprobs() -> int:
    """Log probabilities over a whole prompt. Raises HeadwayError."""
    return whole_number(os.environ, "HEADWAY_MAX_PROMPT_LOGPROBS", USUAL_PROMPT_LOGPROBS)


def _max_request_seats() -> int | None:
    """None where it is not set: then all seats of the engine."""
    variable = "HEADWAY_MAX_REQUEST_SEATS"
    return whole_number(os.environ, variable, 1) if os.environ.get(variable) else None
