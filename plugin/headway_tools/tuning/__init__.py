"""The tuning of a running server: a sweep over the seats of the preset in force, and the preset that it suggests.

live        the server: its metrics, and commands of a limit that end by themselves
step        the figures of one step, and the objectives that it misses
sweep       which steps are taken, and when the sweep stops
proposal    the knee, the choice, and the preset as a file
curve       throughput over the time between tokens, in letters and as a chart
own_load    a closed loop of clients for a server without load of its own
"""
