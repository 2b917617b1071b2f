"""Load on a running server, and its figures: what the demo, ``headway bench`` and ``headway tune`` share.

served        the end of one request, as its client saw it
sender        open and closed loops
completions   a streaming client of an OpenAI-compatible server
offered       the requests of a workload or a trace, for a live server
measured      the figures of what was served, in bounded memory
run           one arm or two: capacity, load, comparison
quantiles     a sketch of quantiles
histogram     histograms of the server's metrics
fitted        the model of its engine that a server has fitted
scrape        what a server shows at ``/metrics``
"""
