"""What is compared: vLLM by itself, vLLM with the settings it has for an overload, VelocityLLM, and Headway's presets.

The seats and the cap of vLLM's own arms are the best for this workload on this machine, taken from the fluid ceiling of
the constants measured in the run; the caps of a machine of half and of double the speed show what such a number is
worth on another day. ``default`` is the preset of a server to which nothing is told. ``objective`` is ``interactive``
with nothing set but the objectives; the arms of the limits differ from it in the limit alone, ``unfair`` in the order
between tenants. ``unlearnt`` and ``restarted`` are ``objective`` on an engine that has just been started: the first one
of its kind on the machine, and one that finds what another one learnt. The arms of the strategies bound nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from headway_policies import Preset, bundled_presets
from headway_policies.batching import Batching
from headway_policies.fallback import Fallback
from headway_policies.limits import LimitSettings
from headway_policies.memory import Memory
from headway_policies.step import StepSettings
from headway_policies.step.settings import PrefillShare
from headway_simulator.engine_model.capacity import Slo, ceiling
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.traffic.workload import Workload
from serving.client import Engine, Send
from serving.velocity import VERSION, velocity

#: How a machine of another speed differs: the factor of its step times.
_SLOWER, _FASTER = 2.0, 0.5
_FLUSH_S = 2.0
#: The share of the time that prompts get in the arm ``share``.
SHARE = 0.4
#: The batching strategies by themselves.
STRATEGIES: Mapping[str, tuple[str, Batching]] = {
    "serial": ("one at a time", Batching(seats=1, window_ms=0)),
    "static-8": ("static, 8", Batching(strategy="static", seats=8, window_ms=0, flush_after_s=_FLUSH_S)),
    "static-32": ("static, 32", Batching(strategy="static", seats=32, window_ms=0, flush_after_s=_FLUSH_S)),
    "dynamic-8": ("dynamic, 8 or 10 ms", Batching(strategy="dynamic", seats=8, window_ms=10)),
    "dynamic-32": ("dynamic, 32 or 50 ms", Batching(strategy="dynamic", seats=32, window_ms=50)),
    "dynamic-64": ("dynamic, 64 or 100 ms", Batching(strategy="dynamic", seats=64, window_ms=100)),
    "continuous-32": ("continuous, 32", Batching(seats=32, window_ms=0)),
}
BUNDLED = ("serial", "latency", "interactive", "dynamic", "offline", "throughput")


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm: how its requests are sent, and vLLM's cap, its fixed steps (``budget``, ``threshold``) or a preset.

    ``engine``: "usual", "small" (the one with the best number of seats), or one started for each block, "unlearnt" or
    "restarted".
    """

    name: str
    words: str
    send: Callable[[Engine], Send]
    preset: Preset | None = None
    cap: int | None = None
    engine: str = "usual"
    budget: int | None = None
    threshold: int | None = None

    def preset_on(self, seats: int) -> Preset:
        """What is in force during its block, on an engine with so many seats: vLLM alone has them all.

        A preset's seats bound what the engine runs, also past the gate.
        """
        return self.preset or without_bounds(Batching(seats=seats, window_ms=0))


def best_seats(workload: Workload, model: EngineModel, slo: Slo, factor: float = 1.0) -> int:
    """The sequences in flight at the fluid ceiling of the first phase, on a machine whose steps take ``factor``."""
    phase = workload.phases[0]
    scaled = replace(
        model, base_s=model.base_s * factor, seat_s=model.seat_s * factor, prefill_s=model.prefill_s * factor
    )
    return ceiling(scaled, phase.prompt.mean_tokens, phase.output.mean_tokens, slo).seats


def all_arms(workload: Workload, model: EngineModel, slo: Slo, grid: tuple[float, ...]) -> dict[str, Arm]:
    """Every arm by its name; ``grid``: the caps tried, as multiples of the best seats."""
    seats = best_seats(workload, model, slo)
    half, double = (best_seats(workload, model, slo, factor) for factor in (_SLOWER, _FASTER))
    own = stated(slo)
    found = [
        Arm("plain", "vLLM, as it comes", lambda engine: engine.bare),
        Arm("priority", f"vLLM, priority policy, --max-num-seqs {seats}", lambda engine: engine.ranked, engine="small"),
        Arm("cap", f"vLLM, --max-num-queued-reqs {seats}: best by its costs", lambda engine: engine.bare, cap=seats),
        Arm("cap-half", f"the same, {half}: the best at half the speed", lambda engine: engine.bare, cap=half),
        Arm("cap-double", f"the same, {double}: the best at double the speed", lambda engine: engine.bare, cap=double),
        Arm("default", "Headway, balanced, as it comes", lambda engine: engine.gated, bundled_presets()["balanced"]),
        Arm("objective", "Headway, objectives stated, nothing tuned", lambda engine: engine.gated, own),
        Arm("unfair", "Headway, the same, first come first served", lambda engine: engine.gated, _unfair(own)),
        Arm("unlearnt", "Headway, the same, just started", lambda engine: engine.gated, own, engine="unlearnt"),
        Arm("restarted", "Headway, the same, restarted", lambda engine: engine.gated, own, engine="restarted"),
        Arm("velocity", f"VelocityLLM {VERSION}, the objectives stated", lambda engine: velocity(engine, slo)),
    ]
    limits = [("aimd", None), ("sla", None), ("fixed", 8), ("fixed", 32), ("fixed", 64)]
    for policy, fixed in limits:
        words = f"Headway, the same, limit {policy}" if fixed is None else f"Headway, the same, fixed limit of {fixed}"
        name = policy if fixed is None else f"fixed-{fixed}"
        found.append(Arm(name, words, lambda engine: engine.gated, _limited(own, policy, fixed)))
    for name, (words, batching) in STRATEGIES.items():
        found.append(Arm(name, f"Headway, {words}", lambda engine: engine.gated, without_bounds(batching)))
    for name in (one for one in BUNDLED if one not in STRATEGIES):
        words = f"Headway, {name}, as it comes"
        found.append(Arm(name, words, lambda engine: engine.gated, bundled_presets()[name]))
    found += _steps()
    for factor in grid:
        cap = max(1, round(factor * seats))
        found.append(Arm(f"cap-x{factor:g}", f"the same, {cap}", lambda engine: engine.bare, cap=cap))
    return {one.name: one for one in found}


def _steps() -> Iterator[Arm]:
    """Fixed steps of vLLM's own, and the step policy under the default preset: as it comes, off, and by a share."""
    for tokens in (64, 128):
        budget, threshold = f"vLLM, --max-num-batched-tokens {tokens}", f"--long-prefill-token-threshold {tokens}"
        yield Arm(f"budget-{tokens}", budget, lambda engine: engine.bare, budget=tokens)
        yield Arm(f"threshold-{tokens}", f"vLLM, {threshold}", lambda engine: engine.bare, threshold=tokens)
    default = bundled_presets()["balanced"]
    shares: dict[str, PrefillShare] = {"steps": "auto", "unshaped": "off", "share": SHARE}
    for name, share in shares.items():
        preset = default.model_copy(update={"name": name, "step": StepSettings(prefill_share=share)})
        words = f"Headway, balanced, prefill_share = {share!r}".replace("'", '"')
        yield Arm(name, words, lambda engine: engine.gated, preset)


def seated(arm: Arm) -> Arm:
    """The same with all the seats of its preset: nothing waits for a seat, so that the steps alone differ."""
    if arm.preset is None:
        return arm
    changes = {"name": f"{arm.name}-seated", "limit": LimitSettings(policy="fixed")}
    return replace(arm, preset=arm.preset.model_copy(update=changes))


def without_bounds(batching: Batching, inside: str = "fifo") -> Preset:
    """This strategy and this order alone, with these seats whatever the engine does: no objective, no time-out and no
    rung that could refuse a request.

    Nor does a full KV cache cap the seats: the cap would outlast its block.
    """
    preset = bundled_presets()["throughput"]
    free = {"ttft_slo_s": None, "queue_timeout_s": 600.0, "total_timeout_s": 900.0, "first_token_timeout_s": None}
    changes = {
        "name": f"{batching.strategy}-{batching.seats}-{inside}",
        "batching": batching,
        "limit": LimitSettings(policy="fixed"),
        "ordering": preset.ordering.model_copy(update={"inside": inside}),
        "classes": {name: one.model_copy(update=free) for name, one in preset.classes.items()},
        "fallback": Fallback(),
        "memory": Memory(kv_usage_ratio=1.0),
    }
    return preset.model_copy(update=changes)


def stated(slo: Slo) -> Preset:
    """``interactive`` with these objectives for all classes."""
    preset = bundled_presets()["interactive"]
    terms: Mapping[str, object] = {
        "ttft_slo_s": slo.ttft_s,
        "burst_s": None,
        "inter_token_slo_ms": 1000 * slo.inter_token_s,
    }
    classes = {name: one.model_copy(update=dict(terms)) for name, one in preset.classes.items()}
    limit = preset.limit.model_copy(update={"inter_token_slo_ms": 1000 * slo.inter_token_s})  # as it follows in a file
    return preset.model_copy(update={"name": "objective", "classes": classes, "limit": limit})


def _limited(preset: Preset, policy: str, seats: int | None) -> Preset:
    """The same with another limit: ``policy``, or a fixed number of seats."""
    changes: dict[str, object] = {
        "name": f"{policy}-{seats or ''}",
        "limit": preset.limit.model_copy(update={"policy": policy}),
    }
    if seats is not None:
        changes["batching"] = preset.batching.model_copy(update={"seats": seats})
    return preset.model_copy(update=changes)


def _unfair(preset: Preset) -> Preset:
    """The same, each class in the order of arrival."""
    ordering = preset.ordering.model_copy(update={"inside": "fifo"})
    return preset.model_copy(update={"name": "unfair", "ordering": ordering})
