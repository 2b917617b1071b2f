"""A stand-in for the process of a group: API servers that answer what a real one says of its engine, and nothing more.

Run as ``python stand_in_group.py DESCRIPTOR COUNT WORDS...``; the words say what happens: ``refuse`` an error in place
of the start, ``misuse`` the exit code for that, ``vanish`` an end without a word, ``lose 1`` the end of an API server,
whose port still takes connections, ``die`` that of the engine. ``hang 1`` and ``fail 1``: what that API server does
with a ping.
"""

from __future__ import annotations

import http.server
import itertools
import json
import os
import sys
import threading
import time

FACTS = {
    "seats": 8, "device": "cpu", "fingerprint": "f", "dtype": "float32", "quantization": "none",
    "kv_cache_dtype": "float32", "max_model_len": 2048, "step_tokens": 512,
}  # fmt: skip

PAIRS = set(itertools.pairwise(sys.argv[3:]))
SERVERS: list[http.server.ThreadingHTTPServer] = []


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers every GET that has the key."""

    def do_GET(self) -> None:
        """The facts of the engine."""
        number = SERVERS.index(self.server)  # type: ignore[arg-type]  # they are all of one class
        ping = self.path.endswith("/ping")
        if ping and ("hang", str(number)) in PAIRS:
            time.sleep(3600)
        if ping and ("fail", str(number)) in PAIRS:
            self.send_error(500)
            return
        known = self.headers.get("authorization") == f"Bearer {os.environ['HEADWAY_INSTANCE_KEY']}"
        self.send_response(200 if known else 401)
        self.end_headers()
        said = {"holds": ["engine_paused"]} if ping else FACTS
        self.wfile.write(json.dumps(said).encode() if known else b"")

    def log_message(self, *_: object) -> None:
        """Nothing."""


def main(descriptor: str, count: str, *words: str) -> None:
    """Start, do what the words say, and live until it is ended."""

    def say(**message: object) -> None:
        os.write(int(descriptor), json.dumps(message).encode() + b"\n")

    if "vanish" in words:
        return
    if "misuse" in words:
        sys.exit(2)
    if "refuse" in words:
        say(error="--max-num-seqs: no seats")
        return
    SERVERS.extend(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) for _ in range(int(count)))
    for number, one in enumerate(SERVERS):
        if ("lose", str(number)) not in PAIRS:
            threading.Thread(target=one.serve_forever, daemon=True).start()
    front_end = os.environ.get("HEADWAY_FRONT_END")
    say(settings={"ports": [one.server_address[1] for one in SERVERS], "front_end": front_end})
    if "lose" in words:
        say(lost=int(words[words.index("lose") + 1]))
    if "die" in words:
        time.sleep(0.3)
        say(dead="EngineCore (process 1) has ended")
    time.sleep(3600)


if __name__ == "__main__":
    main(*sys.argv[1:])
