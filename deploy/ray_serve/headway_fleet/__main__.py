"""The command of `make fleet`: a fleet on this machine, until Ctrl-C.

python -m headway_fleet [--replicas 2] [--most 2] [--port 8000] -- MODEL [flags of headway serve]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

#: Before Ray is imported: nothing is reported to anybody, and load is passed on every two seconds.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S", "2")
# The workers are started with this process's variables, in other folders.
os.environ["PYTHONPATH"] = os.pathsep.join(
    str(Path(path).resolve())
    for path in (str(Path(__file__).parents[1]), *os.environ.get("PYTHONPATH", "").split(os.pathsep))
    if path
)

import ray
from ray import serve
from ray.serve.config import HTTPOptions

from headway_fleet.app import build
from headway_fleet.server import addresses

#: Each server would take what is free (GiB), or half of it, and all of them start at the same time.
_KV_SPACE = "VLLM_CPU_KVCACHE_SPACE"


def main(argv: list[str] | None = None) -> int:
    """Start, say where, and wait; Ctrl-C and SIGTERM drain and end all of it. The exit code is 0, or 1: no start."""
    parser = argparse.ArgumentParser(prog="python -m headway_fleet", description=__doc__.splitlines()[0])
    parser.add_argument("--replicas", type=int, default=2, help="the least number of servers")
    parser.add_argument("--most", type=int, default=0, help="the most; the least unless it is given")
    parser.add_argument("--gpus", type=float, default=0, help="of each server")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument(
        "--folder", type=Path, default=Path("out/fleet/servers"), help="logs, and targets for Prometheus"
    )
    parser.add_argument("--scaling", type=json.loads, default={}, help="settings of the scaling policy, as JSON")
    parser.add_argument("serve", nargs="+", metavar="MODEL", help="as for headway serve, after --")
    asked = parser.parse_args(argv)
    folder, (model, *flags) = asked.folder.resolve(), asked.serve
    given = {
        "serve": [str(Path(model).resolve()) if Path(model).is_dir() else model, *flags],
        "folder": str(folder),
        "environment": {} if asked.gpus else {_KV_SPACE: os.environ.get(_KV_SPACE, "2")},
        "resources": {"num_cpus": 0, "num_gpus": asked.gpus},
        "scaling": {**asked.scaling, "minimum": asked.replicas, "maximum": max(asked.replicas, asked.most)},
    }
    ray.init("local", include_dashboard=False, log_to_driver=False, namespace="headway", configure_logging=False)
    for number in (signal.SIGINT, signal.SIGTERM):  # Ray has set its own, which ends at once
        signal.signal(number, _stop)
    try:
        try:
            _start(given, asked.port, folder)
            signal.pause()
        except KeyboardInterrupt:
            print("headway: draining", flush=True)
        except RuntimeError as error:
            print(f"headway: {error} The logs of the servers are in {folder}", file=sys.stderr)
            return 1
        serve.shutdown()
    finally:
        ray.shutdown()
    return 0


def _start(given: dict[str, Any], port: int, folder: Path) -> None:
    """Start the application, and say where it is when it answers."""
    print(f"headway: {given['scaling']['minimum']} servers are starting; their logs are in {folder}", flush=True)
    serve.start(http_options=HTTPOptions(host="127.0.0.1", port=port))
    serve.run(build(given), name="headway", route_prefix="/")
    print(f"headway: the fleet answers on http://127.0.0.1:{port}/v1", flush=True)
    print(f"headway: Ray is at {ray.get_runtime_context().gcs_address}", flush=True)
    urls = " ".join(f"--url http://{address}" for address in addresses(folder).values())
    print(f"headway: watch them with: headway dashboard {urls}", flush=True)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
