"""The numbers from a Prometheus server, through prometheus-api-client.

A thread keeps the answers of the last questions fresh; pages read what is there. So a Prometheus that is away or
hangs costs a page one short wait at first sight, and nothing later. Of the client only ``custom_query`` and
``custom_query_range`` are used: its defaults (no timeout, three retries) are replaced, and times are aware UTC.

Short ranges are asked first. A range of hours that Prometheus cannot answer in time is left alone for a while, and
costs the others nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby, pairwise
from statistics import median
from typing import Literal

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.util.retry import Retry

from headway.api import BoundedAdapter, bounded_session
from headway_dashboard.analysis.queries.expressions import Expression, Mean, Metric, Peak
from headway_dashboard.analysis.queries.model import Grid, Labels, Point, Series, on_grid
from headway_dashboard.analysis.queries.reading import Health, Questions, SourceReading, stale_after_s
from headway_dashboard.analysis.server.instances import INSTANCE, health_of_all, of_instances
from headway_dashboard.analysis.units import duration
from headway_dashboard.analysis.view import Span
from headway_dashboard.sources.query_grid import is_coarse, query_grid
from headway_policies.fallback import BreakerState, CircuitBreaker, Verdict

TIMEOUT_S = (0.5, 2.0)
MAX_ANSWER_BYTES = 16 * 1024 * 1024
_FIRST_WAIT_S = 0.8
_FORGET_S = 30.0
#: After so many failures in a row Prometheus is left alone for so long.
_FAILURES = 2
_COOL_S = 10.0
#: A range from here on may be too much for Prometheus; then it is not asked for again for so long.
_LONG_S = 6 * 3600.0
_REST_S = 60.0
_RECENT = '{__name__=~"headway_ready|(ray_)?vllm[:_]num_requests_running"}[2m]'
_AWAY = (requests.RequestException, PrometheusApiClientException, ValueError, LookupError, TypeError, AttributeError,
         RecursionError)  # fmt: skip

#: An expression, its range, and the end of the range; None: now.
Question = tuple[Expression, float, float | None]
Trouble = Literal["refused", "silent"]


class PrometheusSource:
    """Answers expressions from one Prometheus. The thread starts with the first reading.

    ``instances`` are the servers that are meant, by the values of the label. Where Prometheus does not know all of them
    by these names, the figures are of all servers that it knows.
    """

    name = "Prometheus"
    #: A time older than Prometheus keeps is a gap.
    longest_range_s = 30 * 86_400.0

    def __init__(
        self,
        url: str,
        *,
        instances: Sequence[str] = (),
        interval_s: float = 2.0,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        session = bounded_session(MAX_ANSWER_BYTES, sum(TIMEOUT_S))
        session.trust_env = False  # a proxy of the environment must not stand between us and Prometheus
        # POST keeps long queries clear of URL limits; Retry(0) leaves trying again to the breaker.
        self._client = PrometheusConnect(url, session=session, timeout=TIMEOUT_S, retry=Retry(total=0), method="POST")
        session.mount(url, BoundedAdapter(MAX_ANSWER_BYTES, sum(TIMEOUT_S)))  # in place of the one the client mounts
        self._interval_s = interval_s
        self._clock, self._steady = clock, steady
        self._scrape_s = interval_s
        self._meant = tuple(instances)
        self._only: tuple[str, ...] = ()
        self._instances: dict[str, Health] = {}
        self._breaker = CircuitBreaker(_FAILURES, _COOL_S, _COOL_S)
        self._reached = True
        self._health = Health()
        self._wanted: dict[Question, float] = {}
        self._answers: dict[Question, Series] = {}
        self._resting_until_s: dict[float, float] = {}
        self._patient = True
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def reachable(self) -> bool:
        """Whether Prometheus answered the last query, with or without figures of the server."""
        return self._reached

    def read(self, questions: Questions) -> dict[Span, SourceReading]:
        """The newest answers. New questions wait for theirs, 0.8 s at most; none wait while Prometheus is away."""
        wanted = {(expression, span.range_s, span.end_s) for span, asked in questions.items() for expression in asked}
        with self._changed:
            self._start()
            self._wanted.update(dict.fromkeys(wanted, self._steady()))
            self._changed.notify_all()
            self._await(wanted)
            return {span: self._of_time(span.range_s, span.end_s, asked) for span, asked in questions.items()}

    def _of_time(self, range_s: float, end_s: float | None, asked: Sequence[Expression]) -> SourceReading:
        return SourceReading(
            {
                expression: self._answers[expression, range_s, end_s]
                for expression in asked
                if (expression, range_s, end_s) in self._answers
            },
            self._health,
            self._scrape_s,
            self.name,
            note=self._too_long(range_s),
            range_s=range_s,
            end_s=end_s or query_grid(self._clock(), range_s, self._scrape_s).end_s,
            instances=dict(self._instances),
        )

    def _await(self, questions: set[Question]) -> None:
        """Wait for the first answers; after a wait without success not again until Prometheus has answered."""
        if self._patient:
            self._patient = self._changed.wait_for(lambda: self._settled(questions), _FIRST_WAIT_S)

    def _settled(self, questions: set[Question]) -> bool:
        missing = questions - self._answers.keys()
        return not self._reached or all(map(self._rests, missing))

    def _too_long(self, range_s: float) -> str:
        if range_s not in self._resting_until_s:
            return ""
        return (
            f"Prometheus could not answer for {duration(range_s)} within {sum(TIMEOUT_S):g} s: choose a shorter range."
        )

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
        news = {question for question in self._wanted.keys() - self._answers.keys() if not self._rests(question)}
        return self._closed or (bool(news) and self._breaker.state is BreakerState.CLOSED)

    def refresh(self) -> None:
        """Query everything that was requested lately. Stops at the first failure; never raises."""
        with self._changed:
            now_s = self._clock()
            self._prune()
            attempt = self._breaker.begin(self._steady())
        if attempt is None:
            return
        try:
            self._look_at_targets()
            self._ask_all(self._due(now_s), now_s)
        except _AWAY as error:
            self._failed(error, attempt)
        else:
            with self._changed:
                self._breaker.ended(attempt, Verdict.SUCCESS, self._steady())
                self._reached = self._patient = True

    def _prune(self) -> None:
        now_s = self._steady()
        self._wanted = {key: asked_s for key, asked_s in self._wanted.items() if now_s - asked_s < _FORGET_S}
        self._answers = {key: series for key, series in self._answers.items() if key in self._wanted}
        self._resting_until_s = {
            range_s: until_s for range_s, until_s in self._resting_until_s.items() if now_s < until_s
        }

    def _due(self, now_s: float) -> list[Question]:
        """The questions to be asked now, short ranges first."""
        with self._changed:
            due = [key for key in self._wanted if not self._rests(key) and not self._has(key, now_s)]
        return sorted(due, key=lambda key: key[1])

    def _has(self, question: Question, now_s: float) -> bool:
        """Whether its answer is there and changes no more: a coarse grid moves once a minute, one of the past never."""
        known, (_, range_s, end_s) = self._answers.get(question), question
        if known is None:
            return False
        on = query_grid(now_s if end_s is None else end_s, range_s, self._scrape_s)
        if end_s is None:
            return is_coarse(on) and known.times_s[-1:] == (on.end_s,)
        return now_s - on.end_s > stale_after_s(self._scrape_s)

    def _ask_all(self, questions: Iterable[Question], now_s: float) -> None:
        """Answers of one range are published together, so that no page sees the half of a change."""
        for range_s, group in groupby(questions, key=lambda key: key[1]):
            try:
                self._keep({question: self._ask(*question, now_s) for question in group})
            except (requests.Timeout, PrometheusApiClientException):
                if range_s < _LONG_S:
                    raise
                self._rest(range_s)

    def _rest(self, range_s: float) -> None:
        with self._changed:
            self._resting_until_s[range_s] = self._steady() + _REST_S
            self._changed.notify_all()

    def _rests(self, question: Question) -> bool:
        """Whether its range was too long for Prometheus a moment ago."""
        return question[1] in self._resting_until_s

    def _ask(self, expression: Expression, range_s: float, end_s: float | None, now_s: float) -> Series:
        on = query_grid(now_s if end_s is None else end_s, range_s, self._scrape_s)
        result = self._client.custom_query_range(
            of_instances(expression, self._only).promql(f"{self._window_s(expression, on):.0f}s"),
            start_time=datetime.fromtimestamp(on.start_s, UTC),
            end_time=datetime.fromtimestamp(on.end_s, UTC),
            step=f"{on.step_s:.0f}",
        )
        return Series(on.times_s, {_labels(line["metric"], expression): _points(line["values"], on) for line in result})

    def _window_s(self, expression: Expression, on: Grid) -> float:
        """The time that each point looks back: a rate at least as far as two scrapes, a peak to the point before."""
        if isinstance(expression, Peak):
            return on.step_s
        return max((on.brisk if isinstance(expression, Mean) else on).window_s, 2.5 * self._scrape_s)

    def _look_at_targets(self) -> None:
        """Learn each server's newest sample, how often samples come, and which servers Prometheus reaches."""
        recent = self._client.custom_query(_RECENT)
        seen_s: dict[str, float] = {}
        for line in recent:
            name = line["metric"].get(INSTANCE, "")
            seen_s[name] = max(seen_s.get(name, 0.0), *(float(time_s) for time_s, _ in line["values"]))
        up = self._up(tuple(sorted({*seen_s, *self._instances, *self._meant})))
        times_s = sorted({float(time_s) for line in recent[:1] for time_s, _ in line["values"]})
        gaps_s = [after - before for before, after in pairwise(times_s)]
        with self._changed:
            self._scrape_s = max(self._interval_s, round(median(gaps_s), 1)) if gaps_s else self._interval_s
            self._choose(tuple(up))
            self._instances = {name: self._health_of(name, up[name], seen_s.get(name)) for name in self._chosen(up)}
            if self._instances:
                self._health = health_of_all(self._instances.values())
            else:
                self._health = self._health_after(self._health, "refused", "Prometheus does not know it")

    def _up(self, names: tuple[str, ...]) -> dict[str, bool]:
        """Whether Prometheus reaches each server that it scrapes."""
        if not names:
            return {}
        found = self._client.custom_query(f"max by ({INSTANCE}) ({Metric('up', ((INSTANCE, names),)).promql()})")
        return {line["metric"].get(INSTANCE, ""): float(line["value"][1]) > 0 for line in found}

    def _chosen(self, present: Iterable[str]) -> tuple[str, ...]:
        """The servers that are meant, where Prometheus knows all of them; else all that it knows."""
        every = tuple(present)
        return self._meant if self._meant and set(self._meant) <= set(every) else every

    def _choose(self, present: tuple[str, ...]) -> None:
        chosen = self._chosen(present)
        only = () if set(chosen) == set(present) else chosen
        if only != self._only:
            self._only = only
            self._answers.clear()

    def _health_of(self, name: str, up: bool, seen_s: float | None) -> Health:
        if up and seen_s is not None:
            return Health(last_ok_s=seen_s)
        before = self._instances.get(name, Health())
        return self._health_after(before, "refused", "Prometheus does not reach the server", seen_s)

    def _health_after(self, before: Health, trouble: Trouble, detail: str, seen_s: float | None = None) -> Health:
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
            self._breaker.ended(attempt, Verdict.FAILURE, self._steady())
            self._reached = False
            self._health = self._health_after(self._health, "silent" if silent else "refused", detail)
            self._instances = dict.fromkeys(self._instances, self._health)
            self._changed.notify_all()


def _labels(found: Mapping[str, str], expression: Expression) -> Labels:
    return tuple(found.get(label, "") for label in expression.by)


def _points(values: Sequence[tuple[float, str]], on: Grid) -> list[Point]:
    return on_grid(((float(time_s), float(value)) for time_s, value in values), on)
