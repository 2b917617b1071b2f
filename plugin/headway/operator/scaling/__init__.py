"""The scale signal: how many instances the traffic needs, for whatever starts and stops them.

    variables       the settings of a fleet, from the environment
    load_reader     what the decision is made by, read from a gate
    fleet           a whole fleet, which one router sees: whole instances, held, forecast and bounded
    arrivals_file   the arrivals of the last days, kept in a file between two starts
    scale_signal    the number of one server, renewed every few seconds

What decides is ``headway_policies.scaling``.
"""

from headway.operator.scaling.arrivals_file import ArrivalsFile, arrivals_file
from headway.operator.scaling.fleet import Fleet, FleetScale
from headway.operator.scaling.scale_signal import ScaleSignal
from headway.operator.scaling.variables import scaling_from_environment

__all__ = ["ArrivalsFile", "Fleet", "FleetScale", "ScaleSignal", "arrivals_file", "scaling_from_environment"]
