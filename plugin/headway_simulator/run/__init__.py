"""A run: the desk of the server, or none, under the model of the engine on a virtual clock, and its record.

shell   the events and the virtual clock
bare    a stand-in for the desk that dispatches at once, for baselines
visit   the client's own log of one request
result  the record of the run
"""
