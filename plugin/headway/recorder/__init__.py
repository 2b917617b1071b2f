"""The recorder: what arrived at a server in the last half hour, as numbers without text or ids.

recorder    the ring of arrivals, and a copy of it at one moment      summary    rates, lengths, bursts, the mix
trace       the copy as a file that ``headway simulate --trace`` reads
served      the rings of first tokens and ends, and their figures     ring       a bounded ring of rows
speed       how fast the engine's steps were, and how unsteady
"""

from headway.recorder.recorder import Recorder, Recording
from headway.recorder.served import ServedLog, ended_by_kind
from headway.recorder.summary import summarise
from headway.recorder.trace import trace_lines

__all__ = [
    "Recorder",
    "Recording",
    "ServedLog",
    "ended_by_kind",
    "summarise",
    "trace_lines",
]
