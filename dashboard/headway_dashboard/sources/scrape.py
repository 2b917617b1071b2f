"""The scrapes of one server: one thread polls its ``/metrics`` into a ring of the last half hour.

No Prometheus is needed, and nothing is kept when the process ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Literal

import requests

from headway.api import AnswerTooLargeError, bounded_session
from headway_dashboard.analysis.queries.reading import Health, stale_after_s
from headway_dashboard.sources.exposition import PROCESS_START, SampleKey, ScrapeReader
from headway_dashboard.sources.ring import UP, Ring

_REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS})
#: A server locks out an address with too many wrong tokens.
_REFUSED_FOR_S = 60.0

KEEP_S = 30 * 60.0
CONNECT_TIMEOUT_S = 0.5
READ_TIMEOUT_S = 2.0
MAX_ANSWER_BYTES = 8 * 1024 * 1024


class ServerScrape:
    """Polls one server, with a token of its admin API where there is one. ``kept`` is called after each scrape, failed
    or not, while ``lock`` is held.

    ``ring`` and ``health`` are read under ``lock``, which the scrapes of several servers share.
    """

    def __init__(
        self,
        url: str,
        instance: str,
        token: str | None = None,
        *,
        interval_s: float,
        keep_s: float,
        clock: Callable[[], float],
        lock: threading.Lock,
        kept: Callable[[], None],
    ) -> None:
        self._url = f"{url}/metrics"
        self._session = bounded_session(MAX_ANSWER_BYTES, CONNECT_TIMEOUT_S + READ_TIMEOUT_S, token)
        self._session.trust_env = False  # a proxy of the environment must not stand between us and the server
        self._has_token, self._refused_until_s = token is not None, 0.0
        self._interval_s = interval_s
        self._clock = clock
        self._lock = lock
        self._on_kept = kept
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._reader = ScrapeReader()
        self.ring = Ring(keep_s + 60, stale_s=stale_after_s(interval_s), instance=instance)
        self.health = Health()
        self.tried = threading.Event()

    def poll(self) -> None:
        """Scrape once, and keep the result in the ring. Never raises: trouble goes into the health."""
        if time.monotonic() < self._refused_until_s:
            self._failed("refused", self.health.detail)
            return
        try:
            timeout_s = CONNECT_TIMEOUT_S, READ_TIMEOUT_S
            answer = self._session.get(self._url, timeout=timeout_s, allow_redirects=False)
            if answer.status_code != HTTPStatus.OK:
                raise requests.HTTPError(response=answer)
            answer.encoding = "utf-8"
            scrape = self._reader.read(answer.text)
        except requests.Timeout:
            self._failed("silent", "no answer in time")
        except requests.HTTPError as error:
            if self._has_token and error.response.status_code in _REFUSED:
                self._refused_until_s = time.monotonic() + _REFUSED_FOR_S
            self._failed("refused", _refusal(error.response.status_code))
        except AnswerTooLargeError:
            self._failed("refused", "/metrics answers with more than a dashboard reads")
        except requests.RequestException:
            self._failed("refused", "nothing answers at this address")
        except ValueError:
            self._failed("refused", "/metrics is not in Prometheus' text format")
        else:
            self._kept(scrape)
        self.tried.set()

    def start(self) -> None:
        """Start the thread, once."""
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="headway-scrape", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end."""
        self._stop.set()

    def close(self) -> None:
        """Stop polling and wait for the thread."""
        self.stop()
        if self._thread is not None:
            self._thread.join(CONNECT_TIMEOUT_S + READ_TIMEOUT_S + 1)
        self._session.close()

    def _kept(self, scrape: list[tuple[SampleKey, float]]) -> None:
        if all(name == PROCESS_START for (name, _), _ in scrape):
            self._failed("refused", "/metrics has neither headway nor vLLM metrics")
            return
        with self._lock:
            now_s = self._clock()
            self.ring.add(now_s, [(UP, 1.0), *scrape])
            self._on_kept()
            self.health = Health(last_ok_s=now_s)

    def _failed(self, trouble: Literal["refused", "silent"], detail: str) -> None:
        with self._lock:
            before = self.health
            now_s = self._clock()
            self.ring.missed(now_s)
            self._on_kept()
            since_s = now_s if before.failing_since_s is None else before.failing_since_s
            self.health = Health(before.last_ok_s, before.failures + 1, trouble, detail, since_s)

    def _run(self) -> None:
        while not self._stop.is_set():
            began_s = time.monotonic()
            self.poll()
            self._stop.wait(max(0.0, self._interval_s - (time.monotonic() - began_s)))


def _refusal(status: int) -> str:
    """The words of the page for an answer with an error status."""
    if status in _REFUSED:
        return f"/metrics is closed (HTTP {status}): start the dashboard with a token of the server"
    return f"/metrics answers HTTP {status}"
