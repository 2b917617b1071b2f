"""The forecast: what the recent traffic would meet under other presets, on the fitted model of this engine.

job        what a forecast needs, as bytes for another process
figures    the figures of a replay, and of several replays together
replay     the recorded requests under one preset, and the figures of it
pace       the part of a processor that this may use
__main__   the process that does the work: ``python -m headway.forecast``
forecaster starts that process, follows its progress and bounds its time
"""

from headway.forecast.forecaster import WITHIN_S, BusyError, Forecaster, Forecasts
from headway.forecast.job import MOST_SEQUENCES, ForecastError, Job
from headway.forecast.pace import share_of

__all__ = [
    "MOST_SEQUENCES",
    "WITHIN_S",
    "BusyError",
    "ForecastError",
    "Forecaster",
    "Forecasts",
    "Job",
    "share_of",
]
