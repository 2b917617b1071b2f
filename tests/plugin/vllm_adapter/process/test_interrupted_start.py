"""A start that is interrupted; a small program stands for a server that loads and an engine that ignores SIGTERM.

tests/engine/test_starting_and_stopping.py has the same with the real engine, in make test-long.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import psutil
import pytest

from headway.vllm_adapter.process.interrupted_start import INTERRUPTED, TERMINATED, InterruptibleStart

SERVER = """
import signal, subprocess, sys, time
from headway.vllm_adapter.process import interrupted_start
from headway.vllm_adapter.process.interrupted_start import interruptible
interrupted_start._ENGINE_GRACE_S = interrupted_start._OWN_GRACE_S = 0.1
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
engine = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
engine.stdout.readline()
interruptible.armed = sys.argv[1] == "armed"
interruptible.listen()
try:
    print(engine.pid, flush=True)
    while True:  # a signal just before a sleep is handled after it
        time.sleep(0.1)
finally:
    engine.terminate()
    engine.wait()
    if sys.argv[2] == "stuck":
        time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("way_out", ["orderly", "stuck"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, TERMINATED), (signal.SIGINT, INTERRUPTED)])
def test_a_signal_ends_the_server_and_the_engine_that_it_waits_for(
    number: signal.Signals, code: int, way_out: str
) -> None:
    """Orderly, as soon as the engine is killed; where the way out hangs, without it. No process is left."""
    server = subprocess.Popen([sys.executable, "-c", SERVER, "armed", way_out], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    with server.stdout:
        engine = psutil.Process(int(server.stdout.readline()))
        server.send_signal(number)
        ended = server.wait(60)
    assert psutil.wait_procs([engine], timeout=60)[1] == []
    if way_out == "stuck":
        assert ended == code
    else:
        assert ended != 0  # KeyboardInterrupt, which the launcher turns into the code


def test_only_a_launcher_has_the_handlers_and_only_for_its_first_engine() -> None:
    """A program that wraps an engine keeps its own; one that replaces an engine is started in another thread."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    start = InterruptibleStart()
    start.listen()
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    start.armed = True
    thread = threading.Thread(target=start.listen)
    thread.start()
    thread.join()
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    try:
        start.listen()
        assert signal.getsignal(signal.SIGTERM) == signal.getsignal(signal.SIGINT) != before[0]
        assert not start.armed
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])
