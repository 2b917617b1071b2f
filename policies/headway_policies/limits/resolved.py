"""The objectives of a class in seconds, on the engine as it is now."""

from __future__ import annotations

from dataclasses import dataclass

from headway_policies.limits.fit.engine_fit import Unloaded
from headway_policies.request import PriorityClass, resolve


@dataclass(frozen=True, slots=True)
class Resolved:
    """The objectives for a prompt of one length; None where the class states none, or it is not known yet.

    ``relative`` says that at least one of them follows the engine. ``ttft_kept_alone`` and ``inter_token_kept_alone``
    are False where the engine misses that one even for a request alone: such an objective refuses nothing.
    """

    ttft_s: float | None
    inter_token_s: float | None
    relative: bool
    ttft_kept_alone: bool = True
    inter_token_kept_alone: bool = True

    @property
    def kept_alone(self) -> bool:
        """Whether the engine keeps all of them for a request alone."""
        return self.ttft_kept_alone and self.inter_token_kept_alone


def resolved(
    terms: PriorityClass, unloaded: Unloaded | None, prompt_tokens: float, usual_prompt_tokens: float
) -> Resolved:
    """The objectives of a class for a prompt of this length, where prompts usually have ``usual_prompt_tokens``.

    A relative time to the first token leaves every prompt the wait that it leaves a usual one: by the multiple of its
    own time alone a long prompt would outlast all others in the queue.
    """
    ttft, inter_token = terms.ttft_slo_s, terms.inter_token_slo_ms
    if unloaded is None:
        ttft_s = None if isinstance(ttft, str) else ttft
        token_s = None if inter_token is None or isinstance(inter_token, str) else inter_token / 1000
        return Resolved(ttft_s, token_s, terms.relative)
    ttft_s = None if ttft is None else resolve(ttft, unloaded.first_token_s(usual_prompt_tokens))
    if ttft_s is not None and isinstance(ttft, str):
        ttft_s += unloaded.prefill_token_s * max(0.0, prompt_tokens - usual_prompt_tokens)
    token_s = None if inter_token is None else resolve(inter_token, 1000 * unloaded.token_s) / 1000
    first_kept = ttft_s is None or ttft_s > unloaded.first_token_s(prompt_tokens)
    later_kept = token_s is None or token_s >= unloaded.token_s
    return Resolved(ttft_s, token_s, terms.relative, first_kept, later_kept)
