"""The numbers straight from the server: one thread polls ``/metrics`` into a ring of the last half hour.

No Prometheus is needed, and nothing is kept when the process ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal

import requests

from headway.api import AnswerTooLargeError, bounded_session
from headway_dashboard.analysis.expressions import Expression
from headway_dashboard.analysis.model import Grid, Series, grid
from headway_dashboard.analysis.reading import Health, Reading, stale_after_s
from headway_dashboard.sources.exposition import SampleKey, samples
from headway_dashboard.sources.ring import Ring

KEEP_S = 30 * 60.0
CONNECT_TIMEOUT_S = 0.5
READ_TIMEOUT_S = 2.0
MAX_ANSWER_BYTES = 8 * 1024 * 1024
_FIRST_WAIT_S = 1.0
_MAX_ANSWERS = 500


class ScrapeSource:
    """Polls one server. The thread starts with the first reading and ends with ``close`` or the process."""

    name = "direct scrape"

    def __init__(
        self, url: str, *, interval_s: float = 2.0, keep_s: float = KEEP_S, clock: Callable[[], float] = time.time
    ) -> None:
        self._url = f"{url}/metrics"
        self._session = bounded_session(MAX_ANSWER_BYTES, CONNECT_TIMEOUT_S + READ_TIMEOUT_S)
        self._session.trust_env = False  # a proxy of the environment must not stand between us and the server
        self._interval_s = interval_s
        self._clock = clock
        self._ring = Ring(keep_s + 60, stale_s=stale_after_s(interval_s))
        self._health = Health()
        self._answers: dict[tuple[Expression, Grid], Series] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._tried = threading.Event()
        self._thread: threading.Thread | None = None

    def read(self, expressions: Sequence[Expression], range_s: float) -> Reading:
        """Answer from the ring. Only the very first reading waits, a second at most, for the first scrape."""
        self._start()
        self._tried.wait(_FIRST_WAIT_S)
        with self._lock:
            on = grid(self._clock(), range_s, self._interval_s)
            found = {one: self._answer(one, on) for one in expressions}
            return Reading(found, self._health, self._interval_s, self.name, range_s=range_s, end_s=on.end_s)

    def _answer(self, expression: Expression, on: Grid) -> Series:
        """One expression's lines. Viewers of the same moment share the work."""
        key = (expression, on)
        if key not in self._answers:
            if len(self._answers) >= _MAX_ANSWERS:
                self._answers.clear()
            self._answers[key] = self._ring.evaluate(expression, on)
        return self._answers[key]

    def poll(self) -> None:
        """One scrape, kept in the ring. Never raises: trouble goes into the health."""
        try:
            answer = self._session.get(self._url, timeout=(CONNECT_TIMEOUT_S, READ_TIMEOUT_S))
            answer.raise_for_status()
            answer.encoding = "utf-8"
            scrape = list(samples(answer.text))
        except requests.Timeout:
            self._failed("silent", "no answer in time")
        except requests.HTTPError as error:
            self._failed("refused", f"/metrics answers HTTP {error.response.status_code}")
        except AnswerTooLargeError:
            self._failed("refused", "/metrics answers with more than a dashboard reads")
        except requests.RequestException:
            self._failed("refused", "nothing answers at this address")
        except ValueError:
            self._failed("refused", "/metrics is not in Prometheus' text format")
        else:
            self._kept(scrape)
        self._tried.set()

    def _kept(self, scrape: list[tuple[SampleKey, float]]) -> None:
        if not scrape:
            self._failed("refused", "/metrics has neither headway nor vLLM metrics")
            return
        with self._lock:
            now_s = self._clock()
            self._ring.add(now_s, scrape)
            self._answers.clear()
            self._health = Health(last_ok_s=now_s)

    def _failed(self, trouble: Literal["refused", "silent"], detail: str) -> None:
        with self._lock:
            before = self._health
            since_s = self._clock() if before.failing_since_s is None else before.failing_since_s
            self._health = Health(before.last_ok_s, before.failures + 1, trouble, detail, since_s)

    def close(self) -> None:
        """Stop polling and wait for the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(CONNECT_TIMEOUT_S + READ_TIMEOUT_S + 1)
        self._session.close()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="headway-scrape", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            began_s = time.monotonic()
            self.poll()
            self._stop.wait(max(0.0, self._interval_s - (time.monotonic() - began_s)))
