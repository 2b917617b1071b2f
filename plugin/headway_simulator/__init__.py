"""The simulator: the desk of the server under a model of the engine, on a virtual clock, to judge presets.

    from headway_simulator import WORKLOADS, EngineModel, Slo, simulate, summarise

    model, slo = EngineModel(), Slo(ttft_s=1.0, inter_token_s=0.075)
    requests = WORKLOADS["W1"].requests(300, seed=1, model=model, slo=slo, load=1.5)
    print(summarise("balanced", simulate(requests, preset, model), slo, warmup_s=30, span_s=300).all.goodput_per_s)

The same seed gives the same run. The simplifications of the model are listed in ``engine_model/engine``.

    engine_model  the model of the engine, and its ceiling
    traffic       the requests, and the clients that send them
    run           one run on the virtual clock, and its record
    report        the figures of runs, and how they are shown
    studies       comparisons, sweeps and timelines
"""

from headway_simulator.engine_model.capacity import Slo, ceiling
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.engine_model.variation import Variation
from headway_simulator.report.class_slo import stated_by
from headway_simulator.report.summary import Summary, spread, summarise
from headway_simulator.run.bare import Bare
from headway_simulator.run.result import Result
from headway_simulator.run.shell import simulate
from headway_simulator.run.visit import Visit
from headway_simulator.studies.strategies import plain
from headway_simulator.traffic.clients import Clients
from headway_simulator.traffic.lengths import lognormal
from headway_simulator.traffic.trace import Trace, TraceError, read_trace
from headway_simulator.traffic.workload import WORKLOADS, Phase, Request, Workload

__all__ = [
    "WORKLOADS",
    "Bare",
    "Clients",
    "EngineModel",
    "Phase",
    "Request",
    "Result",
    "Slo",
    "Summary",
    "Trace",
    "TraceError",
    "Variation",
    "Visit",
    "Workload",
    "ceiling",
    "lognormal",
    "plain",
    "read_trace",
    "simulate",
    "spread",
    "stated_by",
    "summarise",
]
