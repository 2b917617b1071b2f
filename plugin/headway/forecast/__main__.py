"""The process that computes a forecast: a job on its standard input, lines of JSON on its standard output.

    {"done": 0.25}                      the part of the replays that is done
    {"forecasts": [...], "seeds": 3}    the end
    {"error": "..."}                    the end, where there can be no forecast

It has the lowest priority that the system knows, and rests where few processors are busy with the engine (``pace``).
The process ends by itself when its time is over, with what it has by then.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator

from headway.forecast.figures import Figures, merged
from headway.forecast.job import ForecastError, Job
from headway.forecast.pace import Pace
from headway.forecast.replay import drawn, recorded, replay

#: Of processor time, between two looks at the pace and the clock.
_WORK_S = 0.02


_ANSWERS = sys.stdout


class _OutOfTimeError(Exception):
    """The time of the whole forecast is over."""


def main(within_s: float) -> None:
    """Compute the job on the standard input within this many seconds."""
    _give_way()
    until_s, job = time.monotonic() + within_s, Job.unpack(sys.stdin.buffer.read())
    found: dict[str, list[Figures]] = {wanted.name: [] for wanted in job.presets}
    total = job.seeds * len(job.presets)
    try:
        trace = recorded(job.recording)
        span_s = max(job.recording.now_s - job.recording.at_s[-1] + trace.span_s, 1e-3)
        with contextlib.suppress(_OutOfTimeError), _paced(Pace(job.share), until_s):
            for seed in range(job.seeds):
                requests = drawn(trace, seed)
                for preset in job.presets:
                    found[preset.name].append(replay(requests, span_s, preset, job.model, seed))
                    _say({"done": sum(map(len, found.values())) / total})
    except ForecastError as error:
        _say({"error": str(error)})
        return
    ready = [merged(name, replays) for name, replays in found.items() if replays]
    if not ready:
        _say({"error": f"no preset could be replayed within {within_s:g} s"})
        return
    _say({
        "forecasts": [forecast.model_dump() for forecast in ready],
        "seeds": min(len(replays) for replays in found.values() if replays),
        "span_s": span_s,
        "requests": len(trace.rows),
    })  # fmt: skip


@contextlib.contextmanager
def _paced(pace: Pace, until_s: float) -> Iterator[None]:
    """Keep the pace after each few milliseconds of work in the block. Raises _OutOfTimeError there when it is time."""

    def look(*_: object) -> None:
        pace.keep()
        if time.monotonic() > until_s:
            raise _OutOfTimeError

    signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, _WORK_S, _WORK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def _give_way() -> None:
    os.nice(19)
    with contextlib.suppress(AttributeError, OSError):  # not Linux, or not allowed
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _say(what: dict[str, object]) -> None:
    _ANSWERS.write(f"{json.dumps(what)}\n")
    _ANSWERS.flush()


if __name__ == "__main__":
    sys.stdout = sys.stderr  # the output is for answers alone: a custom policy may print
    main(float(sys.argv[1]))
