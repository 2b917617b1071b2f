"""Prefill pacing: when the engine may compute the next prompt beside the sequences that run.

A prompt delays every running sequence by the time that its own computation takes. A limit on the sequences alone admits
prompts as seats come free, none for a while and then several at once, and has to guess what share of the steps they
will be. So dispatches are spread as well, as TCP spreads packets within its window (pacing; Cardwell et al., BBR, ACM
Queue 2016), by a token bucket that holds seconds of step time:

    spare += set point - measured time between tokens        at each step; at most the depth of the bucket
    left = spare - prefill_token_s * prompt tokens that were dispatched and are not computed yet
    a prompt goes while   left > _MARGIN_STEPS, what is urgent while   left > -_URGENT_STEPS   set points

Where the steps take as long as the set point on the mean, as in an overload, the bucket is ``_DEPTH_STEPS`` set points
deep on every engine, and at most ``_FLOOR_STEPS`` overdrawn. Where they take less, there is room for every prompt, and
answers make up for a delay in the steps after it; to hold others back for a long prompt that is computed would only
make their first tokens late. So the less of the set point the last ``_USED_STEPS`` steps used, the less of a delay is
made up for, down to nothing, and then the deeper the bucket is, up to ``_CALM_DEPTH_STEPS``. The bucket is never deeper
near the set point: a burst of prompts would delay all that run at once.

Thus the mean step keeps the set point whatever the mix is, and a new mix is followed within a step or two: no mean
length has to be learnt. A cost that is estimated wrongly lets a prompt go a little too early or too late; the measured
times correct both. A prompt may overdraw the bucket, or a long one would never go. The margin between the two levels is
kept for what is urgent (as trunk reservation keeps lines free; Kelly, Loss networks, Annals of Applied Probability
1991): a few urgent prompts need not wait at all, and they may overdraw the bucket. They may do so up to ``_TURN_STEPS``
in a row, then others have their turn. A ticket that is owed to its tenant, which was served little, has the margin for
no more than ``_OWED_STEPS`` in a row: the most of it stays for what is urgent.

A long prompt costs more than ``_SHORT_STEPS`` set points. It delays all that run, whatever goes after it. A short
prompt that waits until the steps have made up for it is late, and spares those that run hardly anything. So for short
prompts the bucket lacks no more than ``1 - _PASSED_RATIO`` of that excess. Their margin is ``_SHORT_MARGIN_STEPS``
where the mean step takes the set point: beside a long prompt, urgent answers can bear further sequences least.

Without an objective, or while it is not known, prompts are held back only where the engine has more of them than it
needs: so many that they take ``_BACKLOG_STEPS`` times as long as a step without any. More of them add hardly anything
to the tokens a second, and would wait in the engine, where no class goes before another. Urgent prompts may make it
twice as many.

Weak spots: a long pause of the engine is made up for by at most ``_FLOOR_STEPS``; an answer of a few tokens that meets
one long prompt misses its pace, however well prompts are spread.
"""

from __future__ import annotations

import math

from headway_policies.limits.fit.engine_fit import EngineFit
from headway_policies.limits.limit import LimitSettings, Load

#: All in set points, the time that a step should take.
_MARGIN_STEPS = 2.0
_DEPTH_STEPS, _CALM_DEPTH_STEPS = 6.0, 24.0
_TURN_STEPS, _OWED_STEPS = 16.0, 4.0
_URGENT_STEPS = 40.0
_FLOOR_STEPS = 16.0
#: The part of the set point that the mean step uses, over about so many. Delays are made up for in full above the
#: first, not at all below the second; the bucket is as deep as it gets below the third.
_FULL_RATIO, _ROOM_RATIO, _CALM_RATIO = 0.95, 0.8, 0.6
_USED_STEPS = 256
#: In steps without a prompt.
_BACKLOG_STEPS = 8.0
#: In set points: the cost of a short prompt at most, and the margin for these where steps are as long as the set point.
_SHORT_STEPS, _SHORT_MARGIN_STEPS = 2.0, 4.0
_PASSED_RATIO = 0.75
#: A prompt token costs at least this part of what a running sequence costs in a step, whatever the fit says.
_LEAST_TOKEN_RATIO = 0.25


class PrefillPacer:
    """Says whether a prompt may go, from the engine's measured steps and the ``engine`` fit of a prompt token's cost.

    The pacer holds nothing back while fewer than ``min_seats`` seats are taken, nor once a running engine has reported
    no step for as long as makes a limit stale. ``stepped_s`` is when it reported one last; -inf: never.
    """

    def __init__(self, settings: LimitSettings, engine: EngineFit, stepped_s: float = -math.inf) -> None:
        self._settings = settings
        self._engine = engine
        self._set_point_s = self._resolved()
        self._used_ratio = 1.0  # of the set point, by the mean step
        self._spare_s = self._excess_s = 0.0  # the excess of long prompts: not more than what the bucket lacks
        self.idle()
        self._seen_s = stepped_s
        self._computing: dict[int, tuple[int, int]] = {}  # by ticket: prompt tokens, sequences without a first token
        self._tokens = 0
        self._ahead_s = 0.0  # of the prompts that went while others could not, since they could last

    # ------------------------------------------------------------------ events

    def sent(self, ticket_id: int, prompt_tokens: int, sequences: int, now_s: float, *, alone: bool = False) -> None:
        """Prompts of so many tokens in all were dispatched, for so many sequences; ``alone``: to an idle engine, which
        reports again from now on if it ever did.
        """
        if alone and self._seen_s > -math.inf:
            self._seen_s = max(self._seen_s, now_s)
        cost_s = self._token_s * prompt_tokens
        others_can = alone or self._has_margin or self.open_to_short(prompt_tokens)
        self._ahead_s = 0.0 if others_can else self._ahead_s + cost_s
        self._excess_s += max(0.0, cost_s - _SHORT_STEPS * self._set_point_s)
        self._computing[ticket_id] = prompt_tokens, sequences
        self._tokens += prompt_tokens

    def gone(self, ticket_id: int) -> None:
        """The engine has nothing of a ticket any more."""
        tokens, _ = self._computing.pop(ticket_id, (0, 0))
        self._tokens -= tokens

    def idle(self) -> None:
        """The last of all that ran has ended: no answer is left that is behind its pace."""
        self._spare_s = self._bounds_s[1] if self._set_point_s < math.inf else 0.0
        self._excess_s = 0.0

    def observe(self, load: Load, now_s: float) -> None:
        """The engine made a step, or a few equal ones."""
        self._seen_s = now_s
        self._compute(load.steps * load.prefill_tokens)
        self._computed(load.first_tokens)
        set_point_s = self._set_point_s = self._resolved()
        if load.inter_token_s is not None and 0 < set_point_s < math.inf:
            weight = min(1.0, load.steps / _USED_STEPS)
            used_ratio = min(load.inter_token_s / set_point_s, _FLOOR_STEPS)  # a pause is not a load
            self._used_ratio += weight * (used_ratio - self._used_ratio)
            least_s, most_s = self._bounds_s
            spare_s = self._spare_s + load.steps * (set_point_s - load.inter_token_s)
            self._spare_s = max(least_s, min(spare_s, most_s))
            self._excess_s = min(self._excess_s, max(0.0, most_s - self._left_s))

    # ------------------------------------------------------------------ questions

    def open(self, taken: int, now_s: float, *, urgent: bool = False, owed: bool = False) -> bool:
        """Whether the next prompt may go while so many seats are taken; ``urgent``: the margin is there for it, a part
        of it where it is ``owed`` to its tenant.
        """
        if taken < self._settings.min_seats or now_s >= self.stale_s:
            return True
        if self._set_point_s == math.inf:
            costs = self._engine.step_costs
            most_s = (2 if urgent else 1) * _BACKLOG_STEPS * costs.step_s(taken, 0)
            return not self._tokens or costs.prefill_token_s * self._tokens <= most_s
        if self._has_margin:
            return True
        turn_s = (_OWED_STEPS if owed else _TURN_STEPS) * self._set_point_s
        return urgent and self._ahead_s < turn_s and self._left_s > -_URGENT_STEPS * self._set_point_s

    def open_to_short(self, prompt_tokens: int) -> bool:
        """Whether a prompt may go because it is short, while others wait for the excess of long ones."""
        set_point_s = self._set_point_s
        if self._token_s * prompt_tokens > _SHORT_STEPS * set_point_s:
            return False
        margin_steps = _MARGIN_STEPS + self._fullness * (_SHORT_MARGIN_STEPS - _MARGIN_STEPS)
        return self._left_s + _PASSED_RATIO * self._excess_s > margin_steps * set_point_s

    @property
    def stale_s(self) -> float:
        """The time after which pacing delays nothing unless the engine reports a step."""
        return self._seen_s + self._settings.stale_after_s

    # ------------------------------------------------------------------ inside

    def _resolved(self) -> float:
        """The mean time between tokens to aim at, by the engine's present time for a single sequence."""
        unloaded = self._engine.unloaded
        return self._settings.set_point_s(0.0, None if unloaded is None else unloaded.token_s)

    @property
    def _bounds_s(self) -> tuple[float, float]:
        """The least and the most spare time that is kept: by how much of the set point the steps used."""
        calm = _between((_ROOM_RATIO - self._used_ratio) / (_ROOM_RATIO - _CALM_RATIO))
        depth = _DEPTH_STEPS + calm * (_CALM_DEPTH_STEPS - _DEPTH_STEPS)
        return -self._fullness * _FLOOR_STEPS * self._set_point_s, depth * self._set_point_s

    @property
    def _fullness(self) -> float:
        """The mean step between 0, where there is room for every prompt, and 1, where it takes the set point."""
        return _between((self._used_ratio - _ROOM_RATIO) / (_FULL_RATIO - _ROOM_RATIO))

    @property
    def _has_margin(self) -> bool:
        """Whether any prompt may go; also while there is no objective to keep."""
        set_point_s = self._set_point_s
        return set_point_s == math.inf or self._left_s > _MARGIN_STEPS * set_point_s

    @property
    def _left_s(self) -> float:
        """The spare time, less the time for the prompts that are not computed yet."""
        return self._spare_s - self._token_s * self._tokens

    @property
    def _token_s(self) -> float:
        """The assumed cost of a prompt token."""
        costs = self._engine.costs
        return max(costs.prefill_token_s, _LEAST_TOKEN_RATIO * costs.sequence_s)

    def _compute(self, tokens: int) -> None:
        """Count so many prompt tokens as computed: of the prompts that were dispatched first, for all that is known."""
        for ticket_id, (left, sequences) in self._computing.items():
            if tokens <= 0:
                return
            done = min(left, tokens)
            self._computing[ticket_id] = left - done, sequences
            self._tokens -= done
            tokens -= done

    def _computed(self, first_tokens: int | None) -> None:
        """Note first tokens of this many sequences: those that were dispatched first, for all that is known.

        Where the engine does not say how many, all prompts count as computed.
        """
        if first_tokens is None:
            self._computing.clear()
            self._tokens = 0
            return
        while first_tokens > 0 and self._computing:
            ticket_id, (tokens, sequences) = next(iter(self._computing.items()))
            if sequences > first_tokens:
                self._computing[ticket_id] = tokens, sequences - first_tokens
                return
            first_tokens -= sequences
            self.gone(ticket_id)


def _between(part: float) -> float:
    return max(0.0, min(part, 1.0))
