"""``make bench``: arms side by side on one real engine, with the same arrivals.

``run`` plays blocks in turn and keeps them in a file, ``figures`` judges them, ``report`` draws the chart.
"""
