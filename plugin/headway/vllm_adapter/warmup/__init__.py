"""The warm-up: requests of the server's own, before any other and while the engine is idle.

warmup             the plan of the preset, carried out and retried
keep_warm          a short request after idle time
warmup_requests    the requests of both, in vLLM's terms
internal_requests  how they run: past the gate, counted nowhere
"""
