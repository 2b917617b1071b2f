"""The studies of ``headway simulate``, each of several runs.

comparison         presets that serve the same requests
strategies         presets with nothing but a batching strategy, to be compared
tuning             a sweep over the number of seats
knee               the knee of a curve
timeline, picture  seven sequences on four seats under each strategy, and their drawing
"""
