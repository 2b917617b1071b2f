"""The forecast of all presets of one server, requested in a thread and shared by all visitors.

There is one request at a time, since the server computes one forecast at a time, and none where no traffic is recorded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from headway.api import AdminClient, AdminError, RoleError, SwitchedOffError
from headway.api.schema import Forecast
from headway_dashboard.server_client import admin_client

#: The longest time that the server may compute.
WITHIN_S = 60.0
#: The least time between two requests that visits start without a command.
_AGAIN_S = 60.0
_POLL_S = 0.5

NO_TRAFFIC = "There is no forecast: no traffic is recorded yet."
_NO_ROLE = "There is no forecast: it needs the operator's token."
_NOT_OFFERED = "There is no forecast: this server does not offer it."


@dataclass(frozen=True, slots=True)
class ForecastState:
    """The last forecast and its time, the progress of the next forecast, or the reason of a failure."""

    running: bool = False
    done_ratio: float = 0.0
    forecast: Forecast | None = None
    made_s: float = 0.0
    problem: str = ""


class ForecastJob:
    """The requests to one server. A thread exists only while a forecast is computed."""

    def __init__(self, url: str, token: str | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._url, self._token = url, token
        self._clock = clock
        self._lock = threading.Lock()
        self._state = ForecastState()
        self._asked_s = float("-inf")
        self._thread: threading.Thread | None = None

    def state(self) -> ForecastState:
        """The state of the job. Never waits."""
        return self._state

    def age_s(self) -> float:
        """The age of the last forecast."""
        return max(0.0, self._clock() - self._state.made_s)

    def start(self) -> None:
        """Request a forecast, unless one is being computed."""
        with self._lock:
            if self._state.running:
                return
            self._asked_s = self._clock()
            self._state = replace(self._state, running=True, done_ratio=0.0, problem="")
            self._thread = threading.Thread(target=self._run, name="headway-forecast", daemon=True)
            self._thread.start()

    def start_first(self) -> None:
        """Request a forecast for a visit: only while there is none, and at most once in ``_AGAIN_S``."""
        if self._state.forecast is None and self._clock() - self._asked_s >= _AGAIN_S:
            self.start()

    def close(self) -> None:
        """Wait up to two seconds for the thread; a longer one ends with the process."""
        if self._thread is not None:
            self._thread.join(2)

    def _run(self) -> None:
        try:
            forecast = self._ask()
        except RoleError:
            self._failed(_NO_ROLE)
        except SwitchedOffError:
            self._failed(_NOT_OFFERED)
        except AdminError as error:
            self._failed(f"There is no forecast: {error}")
        else:
            self._came(forecast)
        finally:
            if self._state.running:  # an unexpected error: without this line ``start`` would do nothing from now on
                self._failed("There is no forecast: the request for it failed.")

    def _connect(self) -> AdminClient:
        return admin_client(self._url, self._token)

    def _ask(self) -> Forecast | None:
        """The answer; None where no traffic is recorded. Raises AdminError."""
        with self._connect() as client:
            if not client.traffic().requests:
                return None
            done = threading.Event()
            watch = threading.Thread(target=self._follow, args=(done,), name="headway-forecast-progress", daemon=True)
            watch.start()
            try:
                return client.forecast(within_s=WITHIN_S)
            finally:
                done.set()
                watch.join()

    def _follow(self, done: threading.Event) -> None:
        """Read the progress until the answer has come; a reading that fails is left out."""
        with self._connect() as client:
            while not done.wait(_POLL_S):
                try:
                    ratio = client.forecast_progress().done_ratio
                except AdminError:
                    continue
                self._state = replace(self._state, done_ratio=min(1.0, max(0.0, ratio)))

    def _came(self, forecast: Forecast | None) -> None:
        if forecast is None:
            self._failed(NO_TRAFFIC)
        else:
            self._state = ForecastState(forecast=forecast, made_s=self._clock())

    def _failed(self, problem: str) -> None:
        self._state = replace(self._state, running=False, problem=problem)
