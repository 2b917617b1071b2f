"""What the demo's server would say of itself."""

from __future__ import annotations

from headway.api.schema import ClassObjectives, EngineStatus, FallbackState, WarmupStatus
from headway_dashboard.analysis.server.objectives import objectives_of
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.sources.demo import exposition, script
from headway_dashboard.sources.demo.server import SimulatedServer
from headway_dashboard.sources.demo.source import DemoSource
from headway_policies import EngineState
from headway_policies.fallback import Rung

_STARTING = "loading the model"


class DemoStatus:
    """The status of the simulated server; no diagnosis: the page makes it from the figures, as without a token."""

    def __init__(self, source: DemoSource) -> None:
        self._source = source

    def read(self) -> Status:
        """The status now."""
        return demo_status(self._source.server())

    def close(self) -> None:
        """Nothing to end."""


def demo_status(server: SimulatedServer) -> Status:
    """The status of a simulated server."""
    preset = script.preset_at(server.now_s)
    settings = dict(preset.settings())
    return Status(
        known=True,
        version=exposition.VERSION,
        model=exposition.MODEL,
        uptime_s=server.now_s - server.began_s,
        reasons=() if server.up else (f"the engine is being replaced: {_STARTING}",),
        seats_taken=server.seats_taken,
        queued=server.queued_in_all,
        preset=preset.name,
        limit_reason="fixed",
        admission="open",
        engine=_engine(server),
        warmup=WarmupStatus(
            state="done", attempt=1, settled=True, stages={name: [s] for name, s in exposition.WARMUP_S.items()}
        ),
        ladder=FallbackState(
            rung=server.rung.word,
            in_force=[one.word for one in Rung if Rung.NORMAL < one <= server.rung],
            usable=[Rung.CAP.word],
        ),
        strategy=str(settings.get("batching.strategy", "")),
        adaptive=False,
        objectives=objectives_of(settings, {name: _objectives(server, name) for name in preset.classes}),
    )


def _objectives(server: SimulatedServer, name: str) -> ClassObjectives:
    now = server.objectives(name)
    return ClassObjectives(
        ttft_s=now.found.ttft_s,
        inter_token_s=now.found.inter_token_s,
        prompt_tokens=now.prompt_tokens,
        ttft_stated=now.ttft,
        inter_token_stated=now.inter_token,
        follows_engine=now.found.relative,
        kept_alone=now.found.kept_alone,
        words=now.words,
    )


def _engine(server: SimulatedServer) -> EngineStatus:
    state = EngineState.UP if server.up else EngineState.RESTARTING
    return EngineStatus(
        backend=exposition.BACKEND,
        healthy=server.up,
        state=state,
        restart_step="" if server.up else _STARTING,
        restart_attempts=0 if server.up else 1,
        max_restart_attempts=3,
    )
