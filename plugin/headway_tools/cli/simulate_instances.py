"""``headway simulate --instances``: routers before several instances, with the same requests for each."""

from __future__ import annotations

import argparse
import os
import sys

from headway_policies import PresetError
from headway_simulator.engine_model.capacity import Slo
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.instances.compare import compare_routers
from headway_simulator.instances.run import ROUTERS
from headway_simulator.traffic.clients import Clients
from headway_simulator.traffic.traffic import Traffic
from headway_tools.cli.simulated import show
from headway_tools.console import Bar, UsageError, find_preset, open_catalogue, preset_dir

_MOST_INSTANCES = 1000


def check_instances(chosen: argparse.Namespace) -> None:
    """Refuse options that would be ignored. Raises UsageError."""
    if chosen.instances is None:
        if chosen.router or chosen.slow_instance is not None:
            raise UsageError("--router and --slow-instance belong to --instances")
        return
    if chosen.sweep or chosen.timeline or chosen.strategies or chosen.engine_alone or len(chosen.preset or ()) > 1:
        raise UsageError("--instances compares routers under one --preset; not with --sweep, --timeline, --strategies")
    if chosen.instances > _MOST_INSTANCES:
        raise UsageError(f"--instances: at most {_MOST_INSTANCES}, not {chosen.instances}")


def run_instances(
    chosen: argparse.Namespace, models: list[EngineModel], traffic: Traffic, slo: Slo, preset_name: str
) -> int:
    """Compare the routers and report. Raises UsageError where the preset contradicts the seats."""
    catalogue = open_catalogue(preset_dir(chosen.preset_dir, os.environ))
    preset = find_preset((chosen.preset or [preset_name])[0], catalogue).preset
    try:
        with Bar(sys.stderr) as bar:
            comparison = compare_routers(
                list(dict.fromkeys(chosen.router or ROUTERS)),
                preset,
                models,
                traffic,
                slo,
                seed=chosen.seed,
                clients=Clients(patience_s=chosen.patience),
                progress=bar.show,
                by_own=chosen.slo_ttft_ms is None and chosen.slo_inter_token_ms is None,
            )
    except PresetError as error:
        raise UsageError(str(error)) from None
    return show(chosen, comparison)
