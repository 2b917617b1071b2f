"""The questions to a source, and the series that come back.

metric, expressions    a line as PromQL and for the ring      durations    quantiles of what the server measures
model, reading         series and their arithmetic; what a page gets from a source
"""
