"""The sweep: which steps it takes, where it stops, and what it suggests, on a server of formulas and virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from headway.api import ClassStatus, EngineStatus, Status
from headway.api.schema import ClassObjectives, UnloadedTimes
from headway_policies import bundled_presets, parse_preset
from headway_tools.console import FailedError, UsageError
from headway_tools.load.histogram import Histogram
from headway_tools.load.scrape import ClassCounts, Counts
from headway_tools.tuning.curve import curve_chart, curve_of, text_curve
from headway_tools.tuning.proposal import choose, evidence, knee, preset_text
from headway_tools.tuning.step import Objectives
from headway_tools.tuning.sweep import Range, Sweep

BOUNDS = [0.001 * 1.03**place for place in range(360)]
NONE = Objectives(None, {})


class Formula:
    """A step takes ``base_s`` + ``seat_s`` for each sequence; ``demand`` sequences would run if they could."""

    def __init__(
        self,
        *,
        base_s: float = 0.02,
        seat_s: float = 0.0005,
        demand: float = 1000,
        ttft_s: Callable[[int], float] = lambda seats: 0.1,
        refused: Callable[[int], float] = lambda seats: 0.0,
    ) -> None:
        self.base_s, self.seat_s, self.demand, self.ttft_s = base_s, seat_s, demand, ttft_s
        self.refused, self._arrived, self._refused = refused, 0, 0
        self.at_s = 0.0
        self.orders: list[tuple[int, float | None, float]] = []
        self.restarts_at_s = float("inf")
        self._seats = 32
        self._window_ms: float | None = None
        self._tokens = self._gaps_s = self._sequences = self._steps = 0.0
        self._gaps: dict[str, int] = {}
        self._firsts: dict[str, int] = {}

    def sleep(self, length_s: float) -> None:
        """Let the engine run."""
        running = min(self._seats, self.demand)
        step_s = self.base_s + self.seat_s * running + (self._window_ms or 0.0) / 1e5
        steps = length_s / step_s
        self.at_s += length_s
        self._steps += steps
        self._sequences += steps * running
        self._tokens += steps * running
        self._arrived += 1000
        self._refused += round(1000 * self.refused(self._seats))
        self._gaps_s += steps * running * step_s
        self._observe(self._gaps, step_s, round(steps * running))
        self._observe(self._firsts, self.ttft_s(self._seats), round(steps))
        if self.at_s > self.restarts_at_s:
            self._tokens = 0.0

    def now_s(self) -> float:
        """The clock."""
        return self.at_s

    def set_limit(self, seats: int, window_ms: float | None, for_s: float) -> None:
        """Another number of seats."""
        self._seats, self._window_ms = seats, window_ms
        self.orders.append((seats, window_ms, for_s))

    def drained(self, seats: int, window_ms: float | None, for_s: float) -> None:
        """At once."""

    def check(self) -> None:
        """Nobody else is there."""

    def counts(self) -> Counts:
        """The counters so far."""
        queued = max(round(self.demand) - self._seats, 0)
        classes = {
            "normal": ClassCounts(
                arrived=self._arrived,
                queued=queued,
                refusals={"queue_full": self._refused},
                first_tokens=Histogram(dict(self._firsts)),
            )
        }
        return Counts(
            classes, self._sequences, self._steps, {}, self._tokens, Histogram(dict(self._gaps)), self._gaps_s
        )

    @staticmethod
    def _observe(buckets: dict[str, int], value: float, number: int) -> None:
        for bound in [*map(str, BOUNDS), "+Inf"]:
            buckets[bound] = buckets.get(bound, 0) + (number if value <= float(bound) else 0)


def swept(server: Formula, within: Range, objectives: Objectives = NONE) -> Sweep:
    """All steps."""
    sweep = Sweep(server, objectives, settle_s=2.0, measure_s=8.0, progress=lambda what, ratio: None)
    sweep.seats(within)
    return sweep


def test_every_step_is_ordered_for_the_time_that_it_takes() -> None:
    """First the seats in force, then more, up to the ceiling, then fewer."""
    server = Formula()
    sweep = swept(server, Range(32, 4, 64))
    assert [seats for seats, _, _ in server.orders] == [32, 48, 64, 21, 14, 9, 6, 4]
    assert {for_s for _, _, for_s in server.orders} == {10.0}
    assert server.at_s == pytest.approx(8 * 10.0)
    assert [one.seats for one in sweep.swept.by_seats()] == [4, 6, 9, 14, 21, 32, 48, 64]


def test_the_figures_are_those_of_the_measured_time() -> None:
    """tokens/s, the time between tokens and the batch of each step alone."""
    sweep = swept(Formula(), Range(32, 32, 48))
    for step in sweep.swept.steps:
        step_s = 0.02 + 0.0005 * step.seats
        assert step.tokens_per_s == pytest.approx(step.seats / step_s)
        assert step.inter_token_mean_s == pytest.approx(step_s, rel=0.01)
        assert step.inter_token_p95_s == pytest.approx(step_s, rel=0.05)
        assert (step.mean_batch, step.filled, step.over_s) == (pytest.approx(step.seats), True, pytest.approx(8.0))


def test_it_goes_no_further_up_than_the_objective() -> None:
    """The step that misses it is the last one upwards; the others are still tried downwards."""
    server = Formula()
    sweep = swept(server, Range(16, 8, 512), Objectives(0.05, {}))
    assert [seats for seats, _, _ in server.orders] == [16, 24, 36, 54, 81, 10]
    (stop,) = sweep.swept.stops
    assert stop.startswith("not more than 81 seats: the time between tokens was 1.2")


def test_it_goes_no_further_down_than_the_first_token() -> None:
    """Fewer seats make requests wait."""
    server = Formula(ttft_s=lambda seats: 20.0 / seats)
    sweep = swept(server, Range(32, 1, 32), Objectives(None, {"normal": 1.0, "batch": 0.1}))
    assert [seats for seats, _, _ in server.orders] == [32, 21, 14]
    assert sweep.swept.stops[0].startswith("not fewer than 14 seats: the first token of normal was 1.4")


def test_it_goes_no_further_where_requests_are_refused() -> None:
    """Waits that are cut to the objective become refusals; as many as before are no reason."""
    server = Formula(refused=lambda seats: 0.05 if seats >= 20 else 0.3)
    sweep = swept(server, Range(32, 4, 64))
    assert [seats for seats, _, _ in server.orders] == [32, 48, 64, 21, 14]
    assert sweep.swept.stops == ["not fewer than 14 seats: 30% of the requests were refused"]
    found = choose(sweep.swept)
    assert found is not None
    assert found.step.seats > 14


def test_an_objective_that_is_missed_already_stops_only_what_makes_it_worse() -> None:
    """More seats shorten the wait: those are tried to the end."""
    server = Formula(ttft_s=lambda seats: 200.0 / seats)
    sweep = swept(server, Range(16, 8, 64), Objectives(None, {"normal": 1.0}))
    assert [seats for seats, _, _ in server.orders] == [16, 24, 36, 54, 64, 10]
    assert len(sweep.swept.stops) == 1


def test_seats_that_the_load_does_not_fill_are_not_raised() -> None:
    """At the beginning or on the way; fewer are tried."""
    server = Formula(demand=20)
    sweep = swept(server, Range(32, 8, 64))
    assert [seats for seats, _, _ in server.orders] == [32, 21, 14, 9]
    assert sweep.swept.stops == ["not more than 32 seats: the load filled 20.0 of them"]
    assert [seats for seats, _, _ in _orders(Formula(demand=40), Range(32, 32, 500))] == [32, 48, 72]


def _orders(server: Formula, within: Range) -> list[tuple[int, float | None, float]]:
    swept(server, within)
    return server.orders


def test_without_load_nothing_is_swept() -> None:
    """One step, and what to do."""
    with pytest.raises(FailedError, match="--with-load"):
        swept(Formula(demand=0), Range(32, 8, 64))


def test_counters_that_begin_anew_end_the_sweep() -> None:
    """The engine was replaced: the step means nothing."""
    server = Formula()
    server.restarts_at_s = 15.0
    with pytest.raises(FailedError, match="replaced meanwhile"):
        swept(server, Range(32, 8, 64))


@pytest.mark.parametrize(
    ("settings", "current", "ceiling", "given", "up", "down"),
    [
        ({}, 32, 64, (), [48, 64], [21, 14, 9, 6, 4]),
        ({}, 1, 4, (), [2, 3, 4], []),
        ({}, 64, 64, (), [], [42, 28, 18, 12, 8]),
        ({}, 32, 64, (8, 16, 48), [48], [16, 8]),
        (
            {"classes.a.priority": 1, "classes.b.priority": 2, "classes.b.reserved_seats": 13,
             "classes.a.reserved_seats": 40},
            32, 32, (), [], [21, 14],
        ),
    ],
    ids=["usual", "one seat", "at the ceiling", "given", "reserved seats"],
)  # fmt: skip
def test_the_range(
    settings: Mapping[str, object], current: int, ceiling: int, given: tuple[int, ...], up: list[int], down: list[int]
) -> None:
    """Half as many again up to the ceiling; down to an eighth, and never to seats that are all reserved."""
    within = Range.of(settings, current, ceiling, given)
    assert (within.upwards(), within.downwards()) == (up, down)


def test_the_objectives_are_those_that_the_preset_states() -> None:
    """The shortest time between tokens of the classes, and each class's own first token; a limit's where it is used."""
    settings: dict[str, object] = {
        "classes.realtime.ttft_slo_s": 1.0, "classes.realtime.inter_token_slo_ms": 100.0,
        "classes.normal.ttft_slo_s": 2.0, "classes.normal.inter_token_slo_ms": 150.0, "classes.batch.ttft_slo_s": 60,
    }  # fmt: skip
    assert Objectives.of(settings) == Objectives(0.1, {"realtime": 1.0, "normal": 2.0, "batch": 60.0})
    assert Objectives.of({"limit.inter_token_slo_ms": 75.0, "limit.policy": "fixed"}) == NONE
    assert Objectives.of({"limit.inter_token_slo_ms": 75.0, "limit.policy": "aimd"}) == Objectives(0.075, {})


def test_relative_objectives_are_those_of_the_engine_that_is_tuned() -> None:
    """As its status has them; a server that does not tell them has only those that are numbers, and a knee none."""
    settings = bundled_presets()["balanced"].settings()
    status = Status.model_construct(
        classes=[
            ClassStatus.model_construct(name=name, objectives=ClassObjectives(ttft_s=ttft_s, inter_token_s=token_s))
            for name, ttft_s, token_s in (("realtime", 0.6, 0.075), ("normal", 0.7, 0.12), ("batch", 60.0, None))
        ],
        engine=EngineStatus(unloaded=UnloadedTimes(token_s=0.03, prefill_token_s=0.0007)),
    )
    found = Objectives.of(settings, status)
    assert found.ttft_s == {"realtime": 0.6, "normal": 0.7, "batch": 60.0}
    assert found.inter_token_s == pytest.approx(0.075)
    assert Objectives.of(settings) == Objectives(None, {"batch": 60.0})
    only_limit = {"limit.inter_token_slo_ms": "4x", "limit.policy": "model"}
    assert Objectives.of(only_limit, status).inter_token_s == pytest.approx(0.12)
    assert Objectives.of(only_limit | {"limit.policy": "knee"}, status) == NONE


def test_the_knee_is_suggested_where_it_keeps_the_objectives() -> None:
    """By the rule that the reason names."""
    sweep = swept(Formula(), Range(32, 2, 256))
    found = choose(sweep.swept)
    assert found is not None
    assert found.step is found.knee is knee(sweep.swept.by_seats())
    assert 16 < found.step.seats < 128
    assert found.because == (
        "the knee, the point with the largest distance to the chord (Kneedle; Satopaa et al., ICDCSW 2011)"
    )


def test_before_a_knee_that_misses_an_objective_the_best_step_is_suggested() -> None:
    """The one with the most tokens/s of those that keep it."""
    sweep = swept(Formula(), Range(8, 2, 256))
    sweep.swept.objectives = Objectives(0.0285, {})
    found = choose(sweep.swept)
    assert found is not None
    assert found.knee is not None
    assert found.step.seats == max(
        one.seats for one in sweep.swept.by_seats() if one.inter_token_p95_s and one.inter_token_p95_s <= 0.0285
    )
    assert found.because.endswith(f"the knee, {found.knee.seats} seats, misses an objective")


def test_beyond_a_knee_that_misses_an_objective_a_step_may_keep_it() -> None:
    """More seats shorten the wait for the first token."""
    sweep = swept(Formula(ttft_s=lambda seats: 70.0 / seats), Range(8, 2, 256))
    sweep.swept.objectives = Objectives(None, {"normal": 1.0})
    found = choose(sweep.swept)
    assert found is not None
    assert found.knee is not None
    assert found.knee.seats < 70 < found.step.seats


def test_a_step_that_refuses_more_is_not_suggested() -> None:
    """Though it is the knee."""
    found = swept(Formula(), Range(16, 2, 256)).swept
    bend = knee(found.by_seats())
    assert bend is not None
    found.steps = [replace(step, refused=step.arrived // 5) if step is bend else step for step in found.steps]
    chosen = choose(found)
    assert chosen is not None
    assert chosen.knee is not None
    assert chosen.knee.seats == bend.seats != chosen.step.seats


def test_where_all_miss_an_objective_nothing_worse_than_now_is_suggested() -> None:
    """Steps that miss it by no more than the seats in force may be suggested."""
    sweep = swept(Formula(), Range(32, 8, 64), Objectives(0.001, {}))
    found = choose(sweep.swept)
    assert found is not None
    assert found.step.seats <= 32


def test_of_steps_with_the_same_throughput_the_fewest_seats_are_suggested() -> None:
    """An engine that is bound by its compute gives a line without a knee."""
    found = choose(swept(Formula(base_s=1e-6, seat_s=0.001), Range(32, 16, 64)).swept)
    assert found is not None
    assert (found.step.seats, found.knee) == (21, None)


def test_the_window_of_whole_batches_is_tried_at_the_suggested_seats() -> None:
    """The one that costs least is suggested: here each ms of it makes a step longer."""
    server = Formula()
    sweep = swept(server, Range(32, 8, 64))
    chosen = choose(sweep.swept)
    assert chosen is not None
    sweep.window(chosen.step.seats, 50.0)
    seats = chosen.step.seats
    assert [order[:2] for order in server.orders[-5:]] == [(seats, ms) for ms in (50.0, 0.0, 25.0, 100.0, 200.0)]
    again = choose(sweep.swept)
    assert again is not None
    assert (again.step.seats, again.window_ms) == (seats, 0.0)


@pytest.mark.parametrize("name", ["balanced", "dynamic", "interactive", "latency", "offline"])
@pytest.mark.parametrize("source", ["bundled", "given"])
def test_the_suggestion_is_a_valid_preset_with_its_evidence(name: str, source: str) -> None:
    """The suggestion extends the one in force, or is whole where that one is not a file; its seats hold."""
    preset = bundled_presets()[name]
    sweep = swept(Formula(), Range(preset.batching.seats, 4, 64), Objectives(0.045, {}))
    chosen = choose(sweep.swept)
    assert chosen is not None
    text = preset_text(name, source, preset.settings(), sweep.swept, chosen, "http://h:1")
    made = parse_preset(text, "tuned.toml")
    assert (made.name, made.batching.seats, made.limit.policy) == (f"{name}-tuned", chosen.step.seats, "fixed")
    assert (made.classes, made.ordering, made.queue, made.fallback) == (
        preset.classes, preset.ordering, preset.queue, preset.fallback,
    )  # fmt: skip
    assert made.limit.max_seats is None or made.limit.max_seats >= chosen.step.seats
    assert (f'extends = "{name}"' in text) == (source == "bundled")
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert all(f"# {line}" in comments for line in evidence(sweep.swept))
    assert f"# {chosen.step.seats} seats: {chosen.because}." in comments


def test_a_preset_of_a_file_is_extended_by_its_path() -> None:
    """As the server names it."""
    sweep = swept(Formula(), Range(32, 16, 64))
    chosen = choose(sweep.swept)
    assert chosen is not None
    text = preset_text("mine", "/etc/headway/mine.toml", {}, sweep.swept, chosen, "http://h:1")
    assert 'extends = "/etc/headway/mine.toml"' in text


def test_the_curve_is_drawn_in_letters_and_as_a_chart() -> None:
    """Each step by its seats; the knee in brackets."""
    steps = swept(Formula(), Range(32, 4, 128)).swept.by_seats()
    bend = knee(steps)
    assert bend is not None
    drawn = text_curve(curve_of(steps, bend))
    assert f"[{bend.seats}]" in drawn
    assert all(f"o{step.seats}" in drawn for step in steps if step is not bend)
    assert max(map(len, drawn.splitlines())) <= 100
    chart = curve_chart(curve_of(steps, bend))
    assert chart.traces[0]["text"] == [str(step.seats) for step in steps]
    assert chart.traces[1]["text"] == [str(bend.seats)]
    assert text_curve(curve_of(steps[:1], None)) == ""


@pytest.mark.parametrize("given", [(8, 500), (4, 16)])
def test_numbers_that_the_server_does_not_take_are_refused_before_any_step(given: tuple[int, ...]) -> None:
    """More than the engine's ceiling, or no more than the preset reserves."""
    settings = {"classes.a.priority": 1, "classes.b.priority": 2, "classes.b.reserved_seats": 6}
    with pytest.raises(UsageError, match=f"--seats {'500' if 500 in given else '4'}: this server takes 7 to 64"):
        Range.of(settings, 32, 64, given)
