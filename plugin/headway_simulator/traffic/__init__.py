"""The requests that a run has to serve, drawn from a seed or read from a trace, and the clients that send them.

lengths   lengths of prompts and answers, in one of four shapes
workload  requests drawn from a seed, and the named workloads
trace     requests of a recorded day
traffic   either of them, for one engine and one objective
clients   clients that give up and retry
"""
