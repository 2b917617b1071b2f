"""A stand-in for vLLM's launcher as a child process: it answers its health route and nothing more.

Run as ``python stand_in_own_server.py DESCRIPTOR SOCKET WORDS...``; the words say what happens: ``refuse`` an error in
place of the start, ``orderly`` an end in order, with the file behind that word, ``misuse`` the exit code for that,
``vanish`` an end without a word, ``slow`` no answer yet, ``mute`` no word of its engine, ``lose`` the end of a process
that it has started, when the file behind that word is there.
"""

from __future__ import annotations

import http.server
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from pathlib import Path

ENGINE = {
    "seats": 8, "ranks": 1, "device": "cpu", "fingerprint": "f", "dtype": "float32", "quantization": "none",
    "kv_cache_dtype": "float32", "max_model_len": 2048, "step_tokens": 512,
    "max_loras": None,
}  # fmt: skip


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers every GET."""

    def do_GET(self) -> None:
        """It is healthy."""
        self.send_response(200 if self.path == "/health" else 404)
        self.send_header("content-length", "0")
        self.end_headers()

    def address_string(self) -> str:
        """A Unix socket's clients have none."""
        return ""

    def log_message(self, *_: object) -> None:
        """Nothing."""


def end_in_order(file: str) -> None:
    """On SIGTERM end one child after the other, as vLLM's launcher does, then write the file and end."""
    parts = [subprocess.Popen(["sleep", "3600"]) for _ in range(2)]
    signal.sigwait({signal.SIGTERM})
    for part in parts:
        part.kill()
        part.wait()
        time.sleep(0.5)
    Path(file).touch()
    os._exit(0)


def main(descriptor: str, socket: str, *words: str) -> None:
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
    os.set_inheritable(int(descriptor), False)
    say(settings={"behind_queue": os.environ.get("HEADWAY_BEHIND_QUEUE"), "words": words})
    if "mute" not in words:
        say(engine=ENGINE)
    if "orderly" in words:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=end_in_order, args=[words[words.index("orderly") + 1]], daemon=True).start()
    if "lose" in words:
        waits = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.02)"
        subprocess.Popen([sys.executable, "-c", waits, words[words.index("lose") + 1]])
    if "slow" in words:
        time.sleep(3600)
    with socketserver.ThreadingUnixStreamServer(socket, Answering) as server:
        server.daemon_threads = True
        server.serve_forever()
    time.sleep(3600)


if __name__ == "__main__":
    Path(sys.argv[2]).parent.stat()  # the folder is the parent's
    main(*sys.argv[1:])
