"""The objectives of a class as they are now on one engine, in words: what is stated, and the number it comes to.

A relative objective changes with the engine, so a number alone says neither where it comes from nor what it will be
elsewhere. The words name the multiple, the figure of the engine that is multiplied, and the bound where one decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway_policies.limits.fit.engine_fit import Unloaded
from headway_policies.limits.resolved import Resolved, resolved
from headway_policies.request import PriorityClass, relative
from headway_policies.units import compact, duration


@dataclass(frozen=True, slots=True)
class ObjectivesNow:
    """``ttft`` (seconds) and ``inter_token`` (milliseconds) as they are stated, a number or a text like ``"8x"``; None
    where the class states none. ``found`` is what they come to for a prompt of ``prompt_tokens``, the usual length, on
    an engine that takes ``unloaded`` for one request alone, None while that is not known.
    """

    ttft: float | str | None
    inter_token: float | str | None
    found: Resolved
    unloaded: Unloaded | None
    prompt_tokens: float

    @classmethod
    def of(cls, terms: PriorityClass, unloaded: Unloaded | None, prompt_tokens: float) -> ObjectivesNow:
        """The objectives of a class, for prompts of the usual length."""
        found = resolved(terms, unloaded, prompt_tokens, prompt_tokens)
        return cls(terms.ttft_slo_s, terms.inter_token_slo_ms, found, unloaded, prompt_tokens)

    @property
    def words(self) -> str:
        """Both objectives in one line; empty without any."""
        return ", ".join(part for part in (self._first_token(), self._inter_token()) if part)

    def missed_alone(self, asking: str, class_name: str) -> list[str]:
        """The objectives that the engine misses even for a request alone, a sentence without its full stop each.

        ``asking`` is what states them, the name of a preset.
        """
        if self.unloaded is None:
            return []
        found, missed = self.found, list[tuple[str, float]]()
        if found.ttft_s is not None and not found.ttft_kept_alone:
            alone_s = self.unloaded.first_token_s(self.prompt_tokens)
            missed.append((f"a first token within {_time(found.ttft_s)}", alone_s))
        if found.inter_token_s is not None and not found.inter_token_kept_alone:
            missed.append((f"{_time(found.inter_token_s)} a token", self.unloaded.token_s))
        return [
            f"{asking} asks {what} of {class_name}; this engine takes {_time(alone_s)} for a request alone: it refuses "
            "nothing for that"
            for what, alone_s in missed
        ]

    def _first_token(self) -> str:
        if self.found.ttft_s is None:
            return _unmeasured("first token within {}x of this engine's own time (not measured yet)", self.ttft)
        said = f"first token within {_time(self.found.ttft_s)}"
        if not isinstance(self.ttft, str) or self.unloaded is None:
            return said
        alone_s = self.unloaded.first_token_s(self.prompt_tokens)
        tokens = round(self.prompt_tokens)
        of = f"of this engine's {_time(alone_s)} for {f'{compact(tokens)} tokens' if tokens else 'a short prompt'}"
        return f"{said} ({_multiple(self.ttft, alone_s, of, unit_s=1.0)})"

    def _inter_token(self) -> str:
        if self.found.inter_token_s is None:
            return _unmeasured("{}x of its own time a token (not measured yet)", self.inter_token)
        said = f"{_time(self.found.inter_token_s)} a token"
        if not isinstance(self.inter_token, str) or self.unloaded is None:
            return said
        return f"{said} ({_multiple(self.inter_token, self.unloaded.token_s, '', unit_s=0.001)})"


def _unmeasured(words: str, stated: float | str | None) -> str:
    return words.format(f"{relative(stated).times:g}") if isinstance(stated, str) else ""


def _multiple(stated: str, alone_s: float, of: str, unit_s: float) -> str:
    """The multiple, its base, and the bound of the objective if the bound decides."""
    found = relative(stated)
    said, by_multiple = f"{found.times:g}x{f' {of}' if of else ''}", found.times * alone_s / unit_s
    if by_multiple < found.least:
        return f"{said}, but at least {_time(found.least * unit_s)}"
    return f"{said}, but at most {_time(found.most * unit_s)}" if by_multiple > found.most else said


def _time(time_s: float) -> str:
    """Milliseconds with three digits below a second: of a fast engine each tenth counts."""
    return f"{compact(round(1000 * time_s, 2))} ms" if time_s < 0.9995 else duration(time_s)
