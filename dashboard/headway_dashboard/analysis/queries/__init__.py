"""What is asked of a source, and the series that come back.

metric, expressions    a line as PromQL and for the ring      durations, peaks    quantiles, cut to the longest value
model, reading         series and their arithmetic; what a page gets from a source
"""
