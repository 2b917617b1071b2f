"""How long a run is, and what plays in it: each part is a workload at some loads, with its own arms.

The short form judges the default preset as it comes. The long one adds every load, mix and strategy, and takes about
ten hours on two cores; it goes on where it was stopped. ``--only`` chooses parts of either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

_USUAL_TOKEN_S = 0.033  # of the engine that the lengths were chosen for
_LEAST_SERVED = 60  # requests that a block should have room for: with fewer, its luck outweighs the arm

SPINNING = "spinning"  # the workload beside which other programs take the processors (serving/spinning.py)
LONG_PROMPTS = "long-prompts"  # chat, and one prompt in twenty of 24 times its mean


@dataclass(frozen=True, slots=True)
class Span:
    """The length of a block in seconds; the requests due in ``count_s`` are counted.

    Arrivals go on through the tail, so that what was counted ends under the load it began under.
    """

    lead_s: float
    count_s: float
    tail_s: float

    @property
    def block_s(self) -> float:
        """Seconds of one block."""
        return self.lead_s + self.count_s + self.tail_s


@dataclass(frozen=True, slots=True)
class Part:
    """A workload at some loads, and the arms that play it.

    ``grid``: vLLM's caps as multiples of the best seats; ``span``: of its blocks, where they differ from all others'.
    """

    workload: str
    loads: tuple[float, ...]
    arms: tuple[str, ...]
    grid: tuple[float, ...] = ()
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """The parts, how often each is played, how long a block lasts, and the times of what is measured before.

    ``beside``: the arms that are measured with streams beside long prompts (serving/streams.py).
    """

    parts: tuple[Part, ...]
    rounds: int
    span: Span
    level_s: float
    layer_s: float
    layer_rounds: int
    beside: tuple[str, ...] = ()

    def span_of(self, part: Part) -> Span:
        """The length of the blocks of a part."""
        return part.span or self.span

    def on(self, token_s: float, served_per_s: float) -> Form:
        """For an engine that takes so long for a token alone, and could serve so many requests a second.

        A slow one needs longer until its limit is learnt, until as many requests have been counted, and for the loops
        that measure its pace and the cost of the layer. The spells beside spinning programs stay as they are.
        """
        slower = max(1.0, token_s / _USUAL_TOKEN_S)
        learnt_s, count_s = self.span.lead_s * slower, _LEAST_SERVED / served_per_s

        def on_it(span: Span) -> Span:
            lead_s = min(max(span.lead_s, learnt_s), span.lead_s * slower)  # one without a lead keeps none
            return replace(span, lead_s=lead_s, count_s=max(span.count_s, count_s))

        parts = tuple(
            one if one.span is None or one.workload == SPINNING else replace(one, span=on_it(one.span))
            for one in self.parts
        )
        return replace(
            self,
            parts=parts,
            span=on_it(self.span),
            level_s=self.level_s * slower,
            layer_s=self.layer_s * slower,
        )

    def only(self, workloads: tuple[str, ...]) -> Form:
        """The same with some parts alone; the cost of the layer is measured where W1 is among them."""
        parts = tuple(one for one in self.parts if one.workload in workloads)
        return replace(self, parts=parts, layer_rounds=self.layer_rounds if "W1" in workloads else 0)


_SPINNING = Span(48.0, 40.0, 60.0)  # before the other programs, beside them, and after them
_LASTING = Span(32.0, 40.0, 10.0)  # the default preset lets a burst of half a minute wait, and cuts waits after it
_VLLM = ("plain", "priority", "cap", "cap-half", "cap-double")
_STRATEGIES = ("serial", "static-8", "static-32", "dynamic-8", "dynamic-32", "dynamic-64", "continuous-32")
_BUNDLED = ("latency", "interactive", "dynamic", "offline", "throughput")
_LIMITS = ("fixed-8", "fixed-32", "fixed-64", "aimd", "sla", "objective")

SHORT = Form(
    parts=(
        Part("W1", (0.5, 0.9), ("plain", "default")),
        Part("W1", (1.5, 2.5), ("plain", "default", "cap"), (0.75, 1.25), _LASTING),
        Part(SPINNING, (0.9,), ("default",), span=_SPINNING),
    ),
    rounds=1,
    span=Span(8.0, 30.0, 10.0),
    level_s=3.0,
    layer_s=5.0,
    layer_rounds=1,
)
LONG = Form(
    parts=(
        Part("W1", (0.5, 1.0, 1.5, 2.0, 3.0), (*_VLLM, "velocity", "default", "objective"), (0.75, 1.25, 1.5)),
        Part(SPINNING, (0.9, 1.5), ("default",), span=_SPINNING),
        Part("lasting", (1.5,), ("cap", "default", "objective"), span=Span(0.0, 300.0, 10.0)),
        Part("first-seconds", (2.0,), ("unlearnt", "restarted", "objective"), span=Span(10.0, 40.0, 15.0)),
        Part("strategies", (0.5, 1.5), (*_STRATEGIES, *_BUNDLED)),
        Part("W1-60", (1.5, 2.0, 3.0), ("priority", "cap", "objective")),
        Part("W2", (1.5,), ("plain", "cap", "objective")),
        Part("W3", (0.7, 1.5, 2.5), _LIMITS),
        Part("W6", (3.0,), ("plain", "unfair", "objective")),
        Part("trace", (1.5,), ("plain", "cap", "objective")),
    ),
    rounds=3,
    span=Span(20.0, 60.0, 20.0),
    level_s=8.0,
    layer_s=10.0,
    layer_rounds=6,
)
_MIX = Span(8.0, 36.0, 6.0)
#: ``--only step``: what goes into one engine step. A run of its own, with results of its own.
STEP = Form(
    parts=(
        Part(LONG_PROMPTS, (0.7,), ("plain", "unshaped", "steps"), span=_MIX),
        Part(LONG_PROMPTS, (1.2,), ("plain", "budget-128", "threshold-64", "unshaped", "steps"), span=_MIX),
    ),
    rounds=1,
    span=_MIX,
    level_s=3.0,
    layer_s=12.0,
    layer_rounds=0,
    beside=("plain", "budget-128", "threshold-64", "steps", "share"),
)
