"""Stand-ins for the demo's children, and the demo with them in place: real processes, real HTTP, no engine.

stand_in.py demo MODE EXIT_AFTER_S    the demo itself; MODE: well | short | broken | crash | miscount | stubborn
stand_in.py server PORT MODE          answers like the server, and like the dashboard
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CLASSES = ("realtime", "normal", "batch")
REFUSES_EACH = 4  # of the batch requests
STEP_TIME = {"base_s": 0.02, "sequence_s": 0.001, "prompt_token_s": 0.0005, "error_ratio": 0.1}
SEATS = {"latency": 8, "balanced": 32, "throughput": 64}


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    mode = "well"
    lock = threading.Lock()
    arrived = dict.fromkeys(CLASSES, 0)
    completed = dict.fromkeys(CLASSES, 0)
    refused = dict.fromkeys(CLASSES, 0)
    preset, revision = "balanced", 1

    def do_GET(self) -> None:
        if self.path in {"/headway/readyz", "/_stcore/health"}:
            self._send(b"ok", "text/plain")
        elif self.path == "/v1/models":
            self._send(b'{"data": [{"id": "model"}]}', "application/json")
        elif self.headers["Authorization"] != f"Bearer {_token()}":
            self.send_error(401)
        elif self.path == "/metrics":  # closed, as an operator may have it
            self._send(self._metrics().encode(), "text/plain")
        else:
            self._send(json.dumps(self._status()).encode(), "application/json")

    def do_PUT(self) -> None:
        cls = type(self)
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["name"]
        previous, cls.preset, cls.revision = cls.preset, wanted, cls.revision + 1
        answer = {"name": wanted, "revision": cls.revision, "previous": previous, "changes": []}
        self._send(json.dumps(answer).encode(), "application/json")

    def do_POST(self) -> None:
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        class_name = self.headers.get("x-headway-class", "normal")
        with self.lock:
            self.arrived[class_name] += self.mode != "miscount" or class_name != "batch"
            refuses = class_name == "batch" and self.mode != "miscount" and self.arrived["batch"] % REFUSES_EACH == 0
            self.refused[class_name] += refuses
        if refuses:
            self._send(b"{}", "application/json", {"x-headway-reason": "shed", "Retry-After": "7"}, status=429)
            return
        events: list[Any] = [
            {"choices": [{"index": 0, "text": "x", "finish_reason": "length"}]},
            {"choices": [], "usage": {"completion_tokens": wanted["max_tokens"]}},
        ]
        lines = [f"data: {json.dumps(event)}\n\n" for event in events]
        with self.lock:
            self.completed[class_name] += self.mode != "miscount" or class_name != "batch"
        self._send(("".join(lines) + "data: [DONE]\n\n").encode(), "text/event-stream")

    def _status(self) -> dict[str, Any]:
        preset = {"name": self.preset, "revision": self.revision, "description": "", "settings": {}}
        return {
            **preset,
            "version": "0",
            "model": "m",
            "ready": True,
            "reasons": [],
            "state": "open",
            "uptime_s": 1.0,
            "preset": preset,
            "limit": {"live": SEATS[self.preset], "ceiling": 64},
            "seats_taken": 0,
            "queued": 0,
            "in_flight": 0,
            "classes": [self._class(name) for name in CLASSES],
            "engine": {"step_time": STEP_TIME, "kv_cache_tokens": 65536},
        }

    def _class(self, name: str) -> dict[str, Any]:
        counts = {"queued": 0, "in_flight": 0, "arrived": self.arrived[name], "outcomes": {}}
        return {"name": name, "priority": 1, "oldest_wait_s": 0.0, **counts, "objectives": {"ttft_s": 60.0}}

    def _metrics(self) -> str:
        lines = ["headway_batch_size_sum 6", "headway_batch_size_count 2"]
        for name in CLASSES:
            lines += [
                f'headway_arrivals_total{{class="{name}"}} {self.arrived[name]}',
                f'headway_queue_depth{{class="{name}"}} 0',
                f'headway_in_flight{{class="{name}"}} 0',
                f'headway_outcomes_total{{class="{name}",outcome="completed"}} {self.completed[name]}',
                f'headway_outcomes_total{{class="{name}",outcome="shed"}} {self.refused[name]}',
                f'headway_refusals_total{{class="{name}",reason="shed"}} {self.refused[name]}',
                f'headway_queue_wait_seconds_bucket{{class="{name}",le="0.1"}} {self.completed[name]}',
                f'headway_queue_wait_seconds_bucket{{class="{name}",le="+Inf"}} {self.completed[name]}',
            ]
        lines.append(f'headway_fallback_steps_total{{rung="shed",trigger="queue_age"}} {sum(self.refused.values())}')
        return "\n".join(lines) + "\n"

    def _send(self, body: bytes, content_type: str, headers: Mapping[str, str] = {}, status: int = 200) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def serve(port: int, mode: str) -> None:
    """Answer on a loopback port until a signal ends the process."""
    Server.mode = mode
    if mode == "broken":
        sys.stdout.write("something technical\nheadway: error: the engine did not start: no memory\n")
        sys.exit(1)
    if mode == "crash":
        threading.Timer(1.0, os._exit, [9]).start()
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); "
        deaf += "time.sleep(600)"
        child = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
    ThreadingHTTPServer.request_queue_size = 256  # all clients connect at once
    ThreadingHTTPServer(("127.0.0.1", port), Server).serve_forever()


def demo(mode: str, exit_after_s: float | None) -> int:
    """Run the demo with the stand-ins for children."""
    from headway_tools.console import CliError
    from headway_tools.demo import play, show
    from headway_tools.demo.options import Options
    from headway_tools.demo.overload import phase

    server_port, dashboard_port = _free_port(), _free_port()
    me = [sys.executable, __file__]
    play.server_command = lambda options: [*me, "server", str(server_port), mode]
    play.dashboard_command = lambda options: [*me, "server", str(dashboard_port), "well"]
    show._GRACE_S = 0.5
    phase.MAX_RATE_PER_S = 8.0
    if mode == "short":
        play._FIRST_PART_S = 1.0
    show._CRASH_SHOWS_WITHIN_S = 5.0
    options = Options("some/model", "balanced", server_port, dashboard_port, 30.0, exit_after_s, mode == "miscount")
    try:
        return show.run(options)
    except CliError as error:
        sys.stderr.write(f"headway: error: {error}\n")
        return error.code


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _token() -> str:
    return Path(os.environ["HEADWAY_ADMIN_TOKEN_FILE"]).read_text().strip()


if __name__ == "__main__":
    if sys.argv[1] == "demo":
        sys.exit(demo(sys.argv[2], float(sys.argv[3]) if sys.argv[3] != "-" else None))
    serve(int(sys.argv[2]), sys.argv[3])
