"""The forecast of all presets of one server, asked for in a thread, for all visitors together.

Forecasts are asked for one at a time, since the server computes no second one beside it, and only where traffic is
recorded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from headway.api import AdminClient, AdminError, RoleError, SwitchedOffError
from headway.api.schema import Forecast
from headway_dashboard.server_client import admin_client

#: The longest that the server may compute.
WITHIN_S = 60.0
#: A visit asks by itself only where nobody has asked for so long.
_AGAIN_S = 60.0
_POLL_S = 0.5

NO_TRAFFIC = "There is no forecast: no traffic is recorded yet."
_NO_ROLE = "There is no forecast: it needs the operator's token."
_NOT_OFFERED = "There is no forecast: this server does not offer it."


@dataclass(frozen=True, slots=True)
class ForecastState:
    """The last forecast and when it came, whether another is being computed and how far, or why there is none."""

    running: bool = False
    done_ratio: float = 0.0
    forecast: Forecast | None = None
    made_s: float = 0.0
    problem: str = ""


class ForecastJob:
    """Asks one server. A thread lives only while a forecast is computed."""

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
        """Ask for a forecast, unless one is being computed."""
        with self._lock:
            if self._state.running:
                return
            self._asked_s = self._clock()
            self._state = replace(self._state, running=True, done_ratio=0.0, problem="")
            self._thread = threading.Thread(target=self._run, name="headway-forecast", daemon=True)
            self._thread.start()

    def start_first(self) -> None:
        """Ask by itself: only while there is no forecast, and not again at once."""
        if self._state.forecast is None and self._clock() - self._asked_s >= _AGAIN_S:
            self.start()

    def close(self) -> None:
        """Wait a moment for the thread; it ends with the process else."""
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
            if self._state.running:  # by an error that nobody expects: else no forecast could ever be asked for again
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
        """Read the progress until the answer is there; a progress that cannot be read is none."""
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
