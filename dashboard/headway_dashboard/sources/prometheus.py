"""The numbers from a Prometheus server, through prometheus-api-client.

A thread keeps the answers of the last questions fresh; pages read what is there. So a Prometheus that is away or
hangs costs a page one short wait at first sight, and nothing later. Of the client only ``custom_query`` and
``custom_query_range`` are used: its defaults (no timeout, three retries) are replaced, and times are aware UTC.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median
from typing import Literal

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.util.retry import Retry

from headway.api import BoundedAdapter, bounded_session
from headway_dashboard.analysis.expressions import Expression, Mean, Metric
from headway_dashboard.analysis.model import Grid, Labels, Point, Series, grid, on_grid
from headway_dashboard.analysis.reading import Health, Reading
from headway_policies.fallback import BreakerState, CircuitBreaker, Verdict

TIMEOUT_S = (0.5, 2.0)
MAX_ANSWER_BYTES = 16 * 1024 * 1024
_FIRST_WAIT_S = 0.8
_FORGET_S = 30.0
#: After so many failures in a row Prometheus is left alone for so long.
_FAILURES = 2
_COOL_S = 10.0
_RECENT = '{__name__=~"headway_ready|(ray_)?vllm[:_]num_requests_running"}[2m]'
_AWAY = (requests.RequestException, PrometheusApiClientException, ValueError, LookupError, TypeError, AttributeError,
         RecursionError)  # fmt: skip

Question = tuple[Expression, float]
Trouble = Literal["refused", "silent"]


class PrometheusSource:
    """Answers expressions from one Prometheus. The thread starts with the first reading."""

    name = "Prometheus"

    def __init__(self, url: str, *, interval_s: float = 2.0, clock: Callable[[], float] = time.time) -> None:
        session = bounded_session(MAX_ANSWER_BYTES, sum(TIMEOUT_S))
        session.trust_env = False  # a proxy of the environment must not stand between us and Prometheus
        # POST keeps long queries clear of URL limits; Retry(0) leaves trying again to the breaker.
        self._client = PrometheusConnect(url, session=session, timeout=TIMEOUT_S, retry=Retry(total=0), method="POST")
        session.mount(url, BoundedAdapter(MAX_ANSWER_BYTES, sum(TIMEOUT_S)))  # in place of the one the client mounts
        self._interval_s = interval_s
        self._clock = clock
        self._scrape_s = interval_s
        self._instances: tuple[str, ...] = ()
        self._breaker = CircuitBreaker(_FAILURES, _COOL_S, _COOL_S)
        self._reached = True
        self._health = Health()
        self._wanted: dict[Question, float] = {}
        self._answers: dict[Question, Series] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def reachable(self) -> bool:
        """Whether Prometheus itself answered last; what it knows of the server is another matter."""
        return self._reached

    def read(self, expressions: Sequence[Expression], range_s: float) -> Reading:
        """The newest answers. New questions wait for theirs, 0.8 s at most; none wait while Prometheus is away."""
        questions = [(one, range_s) for one in expressions]
        with self._changed:
            self._start()
            self._wanted.update(dict.fromkeys(questions, self._clock()))
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self.reachable or self._answers.keys() >= set(questions), _FIRST_WAIT_S)
            found = {one: self._answers[one, range_s] for one in expressions if (one, range_s) in self._answers}
            end_s = grid(self._clock(), range_s, self._scrape_s).end_s
            return Reading(found, self._health, self._scrape_s, self.name, range_s=range_s, end_s=end_s)

    def close(self) -> None:
        """Stop asking and wait for the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(sum(TIMEOUT_S) + 1)
        self._client.close()

    def _start(self) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name="headway-prometheus", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._closed:
            self.refresh()
            with self._changed:
                self._changed.wait_for(self._has_new_question, self._interval_s)

    def _has_new_question(self) -> bool:
        news = self._wanted.keys() - self._answers.keys()
        return self._closed or (bool(news) and self._breaker.state is BreakerState.CLOSED)

    def refresh(self) -> None:
        """Query everything that was requested lately. Stops at the first failure; never raises."""
        with self._changed:
            now_s = self._clock()
            self._wanted = {one: asked_s for one, asked_s in self._wanted.items() if now_s - asked_s < _FORGET_S}
            self._answers = {one: series for one, series in self._answers.items() if one in self._wanted}
            questions = list(self._wanted)
            attempt = self._breaker.begin(now_s)
        if attempt is None:
            return
        try:
            self._look_at_target()
            self._keep({question: self._ask(*question, now_s) for question in questions})
        except _AWAY as error:
            self._failed(error, attempt)
        else:
            with self._changed:
                self._breaker.ended(attempt, Verdict.SUCCESS, now_s)
                self._reached = True

    def _ask(self, expression: Expression, range_s: float, now_s: float) -> Series:
        on = grid(now_s, range_s, self._scrape_s)
        window_s = (on.brisk if isinstance(expression, Mean) else on).window_s
        result = self._client.custom_query_range(
            expression.promql(f"{max(window_s, 2.5 * self._scrape_s):.0f}s"),
            start_time=datetime.fromtimestamp(on.start_s, UTC),
            end_time=datetime.fromtimestamp(on.end_s, UTC),
            step=f"{on.step_s:.0f}",
        )
        return Series(on.times_s, {_labels(one["metric"], expression): _points(one["values"], on) for one in result})

    def _look_at_target(self) -> None:
        """How old is the newest sample of the server, how often does one come, and does Prometheus reach it?"""
        recent = self._client.custom_query(_RECENT)
        if recent:
            self._instances = tuple(sorted({one["metric"].get("instance", "") for one in recent}))
        times_s = sorted({float(time_s) for one in recent[:1] for time_s, _ in one["values"]})
        gaps_s = [after - before for before, after in pairwise(times_s)]
        where = Metric("up", (("instance", self._instances),)).promql()
        reached = self._client.custom_query(f"max({where})") if self._instances else []
        up = bool(reached) and float(reached[0]["value"][1]) > 0
        with self._changed:
            self._scrape_s = max(self._interval_s, round(median(gaps_s), 1)) if gaps_s else self._interval_s
            if up and times_s:
                self._health = Health(last_ok_s=times_s[-1])
            else:
                detail = "Prometheus does not reach the server" if self._instances else "Prometheus does not know it"
                self._health = self._health_after("refused", detail, times_s[-1] if times_s else None)

    def _health_after(self, trouble: Trouble, detail: str, seen_s: float | None = None) -> Health:
        before = self._health
        since_s = self._clock() if before.failing_since_s is None else before.failing_since_s
        return Health(seen_s or before.last_ok_s, before.failures + 1, trouble, detail, since_s)

    def _keep(self, answers: Mapping[Question, Series]) -> None:
        """Publish one round of answers together, so that no page sees the half of a change."""
        with self._changed:
            self._answers.update(answers)
            self._changed.notify_all()

    def _failed(self, error: Exception, attempt: int) -> None:
        silent = isinstance(error, requests.Timeout)
        detail = "Prometheus does not answer in time" if silent else "Prometheus is not reachable"
        if isinstance(error, PrometheusApiClientException):
            detail = "Prometheus refuses the query"
        with self._changed:
            self._breaker.ended(attempt, Verdict.FAILURE, self._clock())
            self._reached = False
            self._health = self._health_after("silent" if silent else "refused", detail)
            self._changed.notify_all()


def _labels(found: Mapping[str, str], expression: Expression) -> Labels:
    return tuple(found.get(label, "") for label in expression.by)


def _points(values: Sequence[tuple[float, str]], on: Grid) -> list[Point]:
    return on_grid(((float(time_s), float(value)) for time_s, value in values), on)
