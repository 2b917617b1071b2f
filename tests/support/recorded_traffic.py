"""Traffic as a server records it, made of a named workload."""

from __future__ import annotations

from headway.recorder import Recorder, Recording
from headway_policies import Ticket, Usage
from headway_simulator import WORKLOADS, EngineModel, Slo

MODEL = EngineModel()
SLO = Slo(ttft_s=1.0, inter_token_s=0.075)
SPAN_S = 120.0


def recording(load: float, *, seed: int = 1, known: float = 1.0) -> Recording:
    """Two minutes of W1; of the answers this part is known."""
    recorder = Recorder()
    requests = WORKLOADS["W1"].requests(SPAN_S, seed, model=MODEL, slo=SLO, load=load)
    for number, one in enumerate(requests):
        ticket = Ticket(number, one.class_name, one.at_s, prompt_tokens=one.prompt_tokens, max_tokens=one.max_tokens)
        recorder.arrived(ticket)
        if number % 100 < 100 * known:
            recorder.completed(ticket, Usage(one.prompt_tokens, one.output_tokens))
    return recorder.recording(SPAN_S)
