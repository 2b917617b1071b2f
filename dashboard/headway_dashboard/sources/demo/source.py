"""The demo as a source: the simulated server's scrapes in a ring, read like those of a real one."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence

from headway_dashboard.analysis.demo_words import DEMO_SOURCE, DEMO_WORDS
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.model import Grid, Series, grid
from headway_dashboard.analysis.queries.reading import Health, Questions, Reading, stale_after_s
from headway_dashboard.analysis.view import Span
from headway_dashboard.sources.continued import Continued
from headway_dashboard.sources.demo.exposition import samples_of
from headway_dashboard.sources.demo.server import SimulatedServer
from headway_dashboard.sources.ring import Ring
from headway_dashboard.sources.scrape import KEEP_S

_MAX_ANSWERS = 500


class DemoSource:
    """Simulates one server since ``KEEP_S`` before the first reading. It needs no thread: a reading catches up."""

    name = DEMO_SOURCE
    longest_range_s = KEEP_S

    def __init__(self, *, interval_s: float = 2.0, clock: Callable[[], float] = time.time) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: dict[tuple[Expression, Grid], Series] = {}
        self._begin(self._aligned(clock()))

    def read(self, questions: Questions) -> dict[Span, Reading]:
        """Answer from the ring, up to now."""
        with self._lock:
            self._catch_up()
            now_s, health = self._clock(), Health(last_ok_s=self._server.now_s)
            return {span: self._of_time(span, asked, now_s, health) for span, asked in questions.items()}

    def _of_time(self, span: Span, asked: Sequence[Expression], now_s: float, health: Health) -> Reading:
        on, range_s = grid(now_s if span.end_s is None else span.end_s, span.range_s, self._interval_s), span.range_s
        found = {one: self._answer(one, on, span.live) for one in asked}
        return Reading(found, health, self._interval_s, self.name, note=DEMO_WORDS, range_s=range_s, end_s=on.end_s)

    def server(self) -> SimulatedServer:
        """The simulated server, as it is now."""
        with self._lock:
            self._catch_up()
            return self._server

    def close(self) -> None:
        """Nothing to end."""

    def _answer(self, expression: Expression, on: Grid, live: bool) -> Series:
        key = (expression, on)
        if key not in self._answers:
            if len(self._answers) >= _MAX_ANSWERS:
                self._answers.clear()
            self._answers[key] = (
                self._continued.evaluate(expression, on, self._server.now_s)
                if live
                else self._ring.evaluate(expression, on)
            )
        return self._answers[key]

    def _begin(self, now_s: float) -> None:
        self._server = SimulatedServer(now_s - KEEP_S)
        self._ring = Ring(KEEP_S + 60, stale_s=stale_after_s(self._interval_s))
        self._continued = Continued(self._ring.evaluate)

    def _catch_up(self) -> None:
        """Scrape at every interval up to now. After a long pause, or a clock set back, the demo begins again."""
        now_s = self._aligned(self._clock())
        if not 0 <= now_s - self._server.now_s <= 2 * KEEP_S:
            self._begin(now_s)
        while self._server.now_s + self._interval_s <= now_s:
            self._server.advance(self._server.now_s + self._interval_s)
            self._ring.add(self._server.now_s, samples_of(self._server))
            self._answers.clear()

    def _aligned(self, time_s: float) -> float:
        return math.floor(time_s / self._interval_s) * self._interval_s
