"""The settings of a server, from its environment: read and checked before the engine is touched."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from headway.audit import AuditFile
from headway.batches import Batches
from headway.errors import HeadwayError
from headway.fallback import FallbackTarget, check_late_classes, target_from_environment
from headway.http import Bounds, RequestRules, Tokens
from headway.http.access import RouteTable, TrustedProxies
from headway.keys import KeysFile
from headway.operator import PresetCatalogue
from headway.settings import Environment
from headway.usage import TenantBudgets, UsageLog
from headway_policies import Preset


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of an API server; ``keys_file``, ``usage`` and ``batches`` are None where they are
    off.

    ``vllm_waiting``: vLLM's count of waiting requests has the queue in it.
    """

    catalogue: PresetCatalogue
    preset: Preset
    tokens: Tokens
    require_reason: bool
    audit_file: AuditFile | None
    usage: UsageLog | None
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
    batches: Batches | None = None

    @property
    def budgets(self) -> TenantBudgets | None:
        """The budgets of the tenants, where the server has the accounting and a keys file."""
        return None if self.usage is None else self.usage.budgets

    @classmethod
    def from_environment(cls, instances: int | None = None) -> Settings:
        """Read all settings, for one engine or for so many ``instances`` behind a router.

        Raises PresetError, UnknownPresetError or HeadwayError in one line.
        """
        found = Environment()
        catalogue = PresetCatalogue(found.preset_dir, instances)
        as_vllm = found.status_codes == "vllm"
        preset = catalogue.resolve(found.preset)
        check_late_classes(None, catalogue.class_names())
        keys_file = None if found.keys_file is None else KeysFile(found.keys_file, catalogue.class_names())
        usage = UsageLog.from_environment()
        _with_budgets(usage, keys_file)
        return cls(
            catalogue=catalogue,
            preset=preset,
            tokens=Tokens.from_environment(),
            require_reason=found.require_reason,
            warm=found.warmup,
            queue_full_status=HTTPStatus.SERVICE_UNAVAILABLE if as_vllm else HTTPStatus.TOO_MANY_REQUESTS,
            bounds=Bounds.from_environment(),
            request_rules=RequestRules.from_environment(),
            route_table=RouteTable.from_environment(),
            proxies=TrustedProxies.from_environment(),
            keys_file=keys_file,
            max_request_seats=found.max_request_seats,
            grammar_s=found.max_grammar_seconds,
            prompt_logprobs=found.max_prompt_logprobs,
            fallback=target_from_environment(),
            vllm_waiting=found.vllm_waiting,
            usage=usage,
            batches=Batches.from_environment(),
            audit_file=AuditFile.from_environment(),  # the last: it is a file that was opened
        )


def _with_budgets(usage: UsageLog | None, keys_file: KeysFile | None) -> None:
    """Give the accounting the budgets of the tenants. Raises HeadwayError where there are budgets and no accounting."""
    if keys_file is None:
        return
    if usage is not None:
        usage.budgets = TenantBudgets(usage, lambda: keys_file.ring.tenants.values())
    elif keys_file.ring.has_budgets:
        text = "has budgets, which need the accounting"
        raise HeadwayError(f"{keys_file.path}: {text}: set {Environment.usage_db.name} to a file, or remove them")
