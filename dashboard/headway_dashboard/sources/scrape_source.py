"""The figures straight from the servers: each is scraped in a thread of its own, and all are read as one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence

from headway_dashboard.analysis.queries.expressions import Expression, Metric
from headway_dashboard.analysis.queries.model import Grid, Series, grid
from headway_dashboard.analysis.queries.reading import Questions, SourceReading, stale_after_s
from headway_dashboard.analysis.server.instances import health_of_all, instance_name
from headway_dashboard.analysis.view import Span
from headway_dashboard.sources.continued import Continued
from headway_dashboard.sources.evaluation import Column, Evaluator
from headway_dashboard.sources.scrape import KEEP_S, ServerScrape

_FIRST_WAIT_S = 1.5
_MAX_ANSWERS = 500


class ScrapeSource:
    """Polls one server or several, each with the token. The threads start with the first reading and end with ``close``
    or the process.
    """

    name = "direct scrape"
    longest_range_s = KEEP_S

    def __init__(
        self,
        *urls: str,
        token: str | None = None,
        interval_s: float = 2.0,
        keep_s: float = KEEP_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: dict[tuple[Expression, Grid], Series] = {}
        self._evaluator = Evaluator(self._columns, stale_after_s(interval_s))
        self._continued = Continued(self._evaluator.evaluate)
        self._latest_s = 0.0
        self._wait_until_s: float | None = None
        self._servers = {
            instance_name(url): ServerScrape(
                url,
                instance_name(url),
                token,
                interval_s=interval_s,
                keep_s=keep_s,
                clock=clock,
                lock=self._lock,
                kept=self._forget,
            )
            for url in urls
        }

    def read(self, questions: Questions) -> dict[Span, SourceReading]:
        """Answer from the rings. Only the first readings wait, 1.5 s in all, for the first scrapes."""
        self.begin()
        self._await_first()
        with self._lock:
            now_s = self._now_s()
            return {span: self._of_time(span, asked, now_s) for span, asked in questions.items()}

    def _of_time(self, span: Span, asked: Sequence[Expression], now_s: float) -> SourceReading:
        on = grid(now_s if span.end_s is None else span.end_s, span.range_s, self._interval_s)
        found = {expression: self._answer(expression, on, now_s if span.live else None) for expression in asked}
        healths = {name: server.health for name, server in self._servers.items()}
        health, range_s = health_of_all(healths.values()), span.range_s
        return SourceReading(
            found, health, self._interval_s, self.name, range_s=range_s, end_s=on.end_s, instances=healths
        )

    def poll(self) -> None:
        """A scrape of each server, one after the other. Never raises."""
        for server in self._servers.values():
            server.poll()

    def close(self) -> None:
        """Stop polling and wait for the threads."""
        for server in self._servers.values():
            server.stop()
        for server in self._servers.values():
            server.close()

    def begin(self) -> None:
        """Scrape from now on, without a wait."""
        if self._wait_until_s is None:
            self._wait_until_s = time.monotonic() + _FIRST_WAIT_S
        self._start()

    def _start(self) -> None:
        for server in self._servers.values():
            server.start()

    def _await_first(self) -> None:
        """Wait for the first scrape of each server; a hanging server delays all readings together by 1.5 s."""
        until_s = self._wait_until_s or 0.0
        for server in self._servers.values():
            server.tried.wait(max(0.0, until_s - time.monotonic()))

    def _answer(self, expression: Expression, on: Grid, live_s: float | None) -> Series:
        """The lines of an expression; with ``live_s`` those of a grid that ends then. Viewers of a moment share the
        work.
        """
        key = (expression, on)
        if key not in self._answers:
            if len(self._answers) >= _MAX_ANSWERS:
                self._answers.clear()
            self._answers[key] = (
                self._evaluator.evaluate(expression, on)
                if live_s is None
                else self._continued.evaluate(expression, on, live_s)
            )
        return self._answers[key]

    def _columns(self, metric: Metric, suffix: str, since_s: float) -> Iterable[Column]:
        for server in self._servers.values():
            yield from server.ring.columns(metric, suffix, since_s)

    def _forget(self) -> None:
        self._now_s()
        self._answers.clear()
        self._evaluator.forget()

    def _now_s(self) -> float:
        """The time. A clock that was set back contradicts samples, which the rings forget."""
        now_s = self._clock()
        if now_s < self._latest_s:
            self._continued.forget()
        self._latest_s = now_s
        return now_s
