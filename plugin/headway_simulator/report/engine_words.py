"""The engine in a report: its constants and what disturbs it, in words and as a table for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.engine_model.variation import Variation

_SPELL, _PAUSE, _NEIGHBOUR = ("factor", "begin_s", "end_s"), ("length_s", "at_s"), ("factor", "for_s", "every_s")
_DRIFT = ("ratio", "over_s")


def engine_words(model: EngineModel) -> list[str]:
    """The constants of the engine, and what disturbs it, with every digit that was given."""
    constants = (
        f"engine: {_ms(model.base_s)} ms a step + {_ms(model.seat_s)} ms a sequence + "
        f"{_ms(model.prefill_s)} ms a prompt token; {model.kv_tokens} tokens of KV space"
        + (f", {_ms(model.context_s)} ms a step more where it is full" if model.context_s else "")
    )
    return [constants] if model.variation is None else [constants, f"  disturbed: {_disturbances(model.variation)}"]


def engine_table(model: EngineModel) -> dict[str, object]:
    """All constants by name; ``variation`` has a name for every number, and is None where nothing disturbs."""
    varied = model.variation
    if varied is None:
        return asdict(model)
    table: dict[str, object] = {
        "slow": [_named(_SPELL, spell) for spell in varied.slow],
        "pauses": [_named(_PAUSE, pause) for pause in varied.pauses],
        "neighbour": None if varied.neighbour is None else _named(_NEIGHBOUR, varied.neighbour),
        "drift": None if varied.drift is None else _named(_DRIFT, varied.drift),
        "jitter_ratio": varied.jitter_ratio,
        "jitter_hold_s": varied.jitter_hold_s,
        "seed": varied.seed,
    }
    return {**asdict(model), "variation": table}


def _disturbances(varied: Variation) -> str:
    words = [
        f"steps from {_n(begin)} s to {_n(end)} s take {_n(times)} times as long" for times, begin, end in varied.slow
    ]
    words += [f"a pause of {_n(length)} s at {_n(at)} s" for length, at in varied.pauses]
    if varied.neighbour is not None:
        times, there, every = varied.neighbour
        words.append(f"steps take {_n(times)} times as long for {_n(there)} s of every {_n(every)} s")
    if varied.drift is not None:
        part, over = varied.drift
        words.append(f"the speed falls by {_n(part * 100)} % over {_n(over)} s and returns in as much")
    if varied.jitter_ratio:
        hold = varied.jitter_hold_s
        each = f", drawn every {_n(hold)} s" if hold else " of each step"
        words.append(f"a jitter of {_n(varied.jitter_ratio * 100)} %{each}")
    return "; ".join(words)


def _named(names: Sequence[str], numbers: Sequence[float]) -> dict[str, float]:
    return dict(zip(names, numbers, strict=True))


def _ms(given_s: float) -> str:
    return _n(given_s * 1000)


def _n(number: float) -> str:
    return f"{number:.15g}"
