"""G4, G5, G12 and N14: the batching strategies compared with each other, as in the reference texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import mean

from arms import MODEL, SLO, arm, run, run_open
from goal import Goal

from headway_policies import Preset
from headway_simulator import WORKLOADS, Request, Result, Summary, simulate, summarise

SEEDS = (1, 2, 3)
_AT_ONCE = 0.001  # a closed batch gets no more requests: its tail need not wait


def closed(name: str, seed: int, **changes: object) -> list[Request]:
    """The requests of a closed workload."""
    return replace(WORKLOADS[name], **changes).requests(1, seed, model=MODEL, slo=SLO)  # type: ignore[arg-type]  # fields


def batching(strategy: str, seats: int, **more: object) -> Preset:
    """An arm in which only the batching strategy differs."""
    flush = {"flush_after_s": _AT_ONCE} if strategy == "static" else {}
    return arm(f"{strategy}-{seats}", batching={"strategy": strategy, "seats": seats, **flush, **more})


def tokens_per_s(name: str, preset: Preset, **changes: object) -> float:
    """Mean over the seeds, for batches so large that their tails do not matter."""
    changes = {"closed": 4096, **changes}
    return mean(run(closed(name, seed, **changes), preset).tokens_per_s for seed in SEEDS)


def strategies() -> Iterator[Goal]:
    """G4: serial, static, dynamic, continuous."""
    serial = tokens_per_s("W4", batching("continuous", 1), closed=512)
    for seats, target in ((32, 11.0), (64, 13.0)):
        reached = tokens_per_s("W4", batching("continuous", seats)) / serial
        yield Goal("G4", f"continuous with {seats} seats : one at a time, tokens/s", target, reached)
    for name, cv, target in (("W4", 1, 1.9), ("W4-cv2", 2, 2.6)):
        static = tokens_per_s(name, batching("static", 32))
        reached = tokens_per_s(name, batching("continuous", 32)) / static
        yield Goal("G4", f"continuous : static, 32 seats, answers of cv {cv}, tokens/s", target, reached)
    yield from _at_a_quarter()
    bare = mean(
        summarise("bare", simulate(closed("W4", seed, closed=4096), None, MODEL), SLO).tokens_per_s for seed in SEEDS
    )
    through = tokens_per_s("W4", batching("continuous", MODEL.max_num_seqs))
    yield Goal("G4", "continuous through the desk : the engine alone, tokens/s", 0.99, through / bare)


def _at_a_quarter() -> Iterator[Goal]:
    def end_to_end_s(preset: Preset) -> float:
        return mean(_mean_s(run_open(_open(seed, 1.5 / 5.26, 1200), preset, 1200)) for seed in SEEDS)

    static = end_to_end_s(arm("static-8", batching={"strategy": "static", "seats": 8, "flush_after_s": 60}))
    dynamic = end_to_end_s(batching("dynamic", 32))
    continuous = end_to_end_s(batching("continuous", 32))
    note = "static 8 is overloaded at this rate: the longer the run, the larger the ratio"
    figure = "mean end-to-end at 1.5 requests/s for 1200 s, static 8 : dynamic 32/50 ms"
    yield Goal("G4", figure, 3.0, static / dynamic, note=note)
    yield Goal("G4", "mean end-to-end at 1.5 requests/s, dynamic 32/50 ms : continuous", 2.5, dynamic / continuous)


def _open(seed: int, load: float, span_s: float = 300) -> list[Request]:
    return WORKLOADS["W1"].requests(span_s, seed, model=MODEL, slo=SLO, load=load)


def _mean_s(summary: Summary) -> float:
    assert summary.all.end_to_end.mean_s is not None
    return summary.all.end_to_end.mean_s


def multi_bin() -> Iterator[Goal]:
    """G5: batches of answers of similar length."""
    static = tokens_per_s("W4", batching("static", 32))
    for bins, error, target in ((4, 0.0, 1.45), (8, 0.0, 1.65), (8, 0.5, 1.30)):
        reached = tokens_per_s("W4", batching("static", 32, bins=bins), length_error=error) / static
        noise = f", lengths mispredicted by sigma {error:g}" if error else ""
        yield Goal("G5", f"static in {bins} bins : static, 32 seats, cv 1{noise}", target, reached)
    fixed = tokens_per_s("W4-fixed", batching("static", 32))
    reached = tokens_per_s("W4-fixed", batching("static", 32, bins=8)) / fixed
    yield Goal("G5", "the same where all answers are of one length", 0.98, reached)
    in_bins = tokens_per_s("W4-bimodal", batching("static", 32, bins=2))
    yield Goal("G5", "2 bins : perfectly sorted, answers of 16 and 512", 0.95, in_bins / _sorted("W4-bimodal"))


def _sorted(name: str) -> float:
    runs = [sorted(closed(name, seed), key=lambda one: one.output_tokens) for seed in SEEDS]
    return mean(run(requests, batching("static", 32)).tokens_per_s for requests in runs)


def windows() -> Iterator[Goal]:
    """G12: the adaptive window against the best fixed one at every load."""
    for load in (0.05, 0.2, 0.5, 0.8):
        adaptive = _window_s(batching("dynamic", 32, window="adaptive", window_ms=200), load)
        fixed = min(_window_s(batching("dynamic", 32, window_ms=ms), load) for ms in (10, 50, 100, 200))
        figure = f"mean end-to-end at load {load:g}, adaptive window : best of 10/50/100/200 ms"
        yield Goal("G12", figure, 1.02, adaptive / fixed, most=True)


def steadiness() -> Iterator[Goal]:
    """N14: how much of the time the engine computes under more load than it can serve, and how steadily."""
    runs = {name: simulate(_open(1, 1.5), batching(name, 32), MODEL) for name in ("continuous", "dynamic", "static")}
    cvs = {name: batch_cv(one) for name, one in runs.items()}
    note = ", ".join(f"{name} {cv:.2f}" for name, cv in cvs.items() if name != "continuous")
    yield Goal(
        "N14", "share of the time in which the engine computes, continuous", 0.8, runs["continuous"].utilisation_ratio
    )
    figure = "coefficient of variation of the running batch over that time, continuous"
    yield Goal("N14", figure, 0.25, cvs["continuous"], most=True, note=note)


def batch_cv(result: Result) -> float:
    """The coefficient of variation of the number of sequences that generate, over the whole time; idle, it is 0."""
    first, second = (
        sum(number**power * seconds for number, (_, seconds) in result.batches.items()) / result.ended_s
        for power in (1, 2)
    )
    return max(0.0, second - first**2) ** 0.5 / first


def _window_s(preset: Preset, load: float) -> float:
    return mean(_mean_s(run_open(_open(seed, load), preset, 300)) for seed in range(20))
