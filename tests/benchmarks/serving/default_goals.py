"""The goals of the default preset as it comes: beside vLLM as it comes, beside vLLM's best cap, and when another
program takes the processors.
"""

from __future__ import annotations

from collections.abc import Iterator

from goal import Goal

from serving.figures import BlockFigures, middle
from serving.results import Results
from serving.spinning import AFTER, BEFORE, DURING, RECOVERY_S

ARM = "default"
#: Of vLLM's own, where it can serve all, and of its best cap, where it cannot.
_OF_PLAIN, _OF_CAP = 0.98, 0.90
_REALTIME = 0.96
#: What a share may be below another that it should not be below.
_MARGIN = 0.98
_URGENT, _OTHERS = "realtime", "normal"


def default_goals(results: Results) -> Iterator[Goal]:
    """All that the results have."""
    for workload, load in results.parts():
        if workload == "W1" and results.of("W1", load, ARM):
            yield from _within(results, load) if load <= 1 else _beyond(results, load)
        if workload == AFTER:
            yield from _spinning(results, load)


def _within(results: Results, load: float) -> Iterator[Goal]:
    """Where vLLM can serve all: Headway must not cost anything."""
    for figure, name in (("goodput", "good_per_s"), ("tokens/s", "tokens_per_s")):
        own, plain = (middle(getattr(one, name) for one in results.of("W1", load, arm)) for arm in (ARM, "plain"))
        if own is not None and plain is not None:
            words = f"{figure} at load {load:g} : vLLM as it comes"
            yield Goal(ARM, words, _OF_PLAIN, own[0] / max(plain[0], 1e-9), note=f"{own[0]:.3g} : {plain[0]:.3g}")


def _beyond(results: Results, load: float) -> Iterator[Goal]:
    """Where vLLM cannot: as much as its best cap serves, the urgent ones first."""
    blocks = results.of("W1", load, ARM)
    own = middle(block.good_per_s for block in blocks)
    caps = {
        name: found[0]
        for name in results.named("W1")
        if name == "cap" or name.startswith("cap-x")
        if (found := middle(one.good_per_s for one in results.of("W1", load, name))) is not None
    }
    if own is not None and caps:
        best = max(caps, key=caps.__getitem__)
        note = f"{own[0]:.3g} : {caps[best]:.3g}, {best}"
        figure = f"goodput at load {load:g} : vLLM's best cap"
        yield Goal(ARM, figure, _OF_CAP, own[0] / max(caps[best], 1e-9), note=note)
    top = middle(block.attained(_URGENT) for block in blocks)
    if top is not None:
        yield Goal(ARM, f"realtime requests within both objectives at load {load:g}", _REALTIME, top[0])
    yield from _by_urgency(blocks, f"at load {load:g}")


def _spinning(results: Results, load: float) -> Iterator[Goal]:
    """Each class is served as before soon after another program has let the processors go."""
    during = results.of(DURING, load, ARM)
    yield from _by_urgency(during, f"beside other programs at load {load:g}")
    for name in (_URGENT, _OTHERS):
        before, beside, after = (
            middle(one.served(name) for one in results.of(spell, load, ARM)) for spell in (BEFORE, DURING, AFTER)
        )
        if before is None or beside is None or after is None:
            continue
        note = f"{before[0]:.0%}, beside them {beside[0]:.0%}, {after[0]:.0%}"
        figure = f"{name} served, from {RECOVERY_S:g} s after other programs on at load {load:g} : before"
        yield Goal(ARM, figure, _MARGIN, after[0] / max(before[0], 1e-9), note=note)


def _by_urgency(blocks: list[BlockFigures], when: str) -> Iterator[Goal]:
    """The served share falls with urgency."""
    urgent, others = (middle(block.served(name) for block in blocks) for name in (_URGENT, _OTHERS))
    if urgent is not None and others is not None:
        note = f"{urgent[0]:.0%} : {others[0]:.0%}"
        figure = f"share that is served, realtime : others, {when}"
        yield Goal(ARM, figure, _MARGIN, urgent[0] / max(others[0], 1e-9), note=note)
