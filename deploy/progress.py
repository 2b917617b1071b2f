"""Progress of the set-up: one line for each step; what the tools print goes to a log file."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

LIVE_TICK_S = 0.2
PLAIN_TICK_S = 20.0
TAIL_LINES = 25
TELLING = ("Collecting", "Downloading", "Installing", "Building", "Preparing", "Get:", "Unpacking", "Setting up")


class StepError(Exception):
    """A step failed. The message says what happened and, where known, what to do next."""


class Progress:
    """Numbered steps on stdout: a live line on a terminal, one line every 20 s where there is none."""

    def __init__(self, steps: int, log_path: Path) -> None:
        self.steps = steps
        self.step = 0
        self.log_path = log_path
        self._live = sys.stdout.isatty()
        self._started_s = time.monotonic()

    def note(self, text: str) -> None:
        """Print a plain line, out of the way of the live one."""
        print(f"{self._wipe()}        {text}", flush=True)

    def done(self, label: str) -> None:
        """Count a step that took no time worth a live line."""
        self.step += 1
        print(f"{self._wipe()}[{self.step}/{self.steps}] {label}", flush=True)

    def run(self, label: str, command: list[str], env: dict[str, str], *, counts: bool = True) -> None:
        """Run a command as the next step, its output in the log; raises StepError where it does not exit with 0."""
        if counts:
            self.step += 1
        head = f"[{self.step}/{self.steps}] {label}"
        begun_s = time.monotonic()
        if not self._live:
            print(f"{head} ...", flush=True)
        code = self._wait(head, begun_s, command, env)
        outcome = "done" if code == 0 else f"failed with exit code {code}"
        print(f"{self._wipe()}{head}: {outcome} in {time.monotonic() - begun_s:.0f} s", flush=True)
        if code != 0:
            raise StepError(f"{label}: `{command[0]}` exited with {code}")

    def tail(self) -> str:
        """The end of the log, for a person who must find out why a step failed."""
        lines = self.log_path.read_text(errors="replace").splitlines() if self.log_path.exists() else []
        return "\n".join(f"    {line}" for line in lines[-TAIL_LINES:])

    @property
    def elapsed_s(self) -> float:
        """Seconds since the first step."""
        return time.monotonic() - self._started_s

    def _wait(self, head: str, begun_s: float, command: list[str], env: dict[str, str]) -> int:
        with self.log_path.open("a") as log:
            log.write(f"\n$ {' '.join(command)}\n")
            log.flush()
            child = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                while True:
                    try:
                        return child.wait(LIVE_TICK_S if self._live else PLAIN_TICK_S)
                    except subprocess.TimeoutExpired:
                        self._show(head, time.monotonic() - begun_s)
            finally:
                if child.poll() is None:
                    child.terminate()
                    child.wait()

    def _show(self, head: str, elapsed_s: float) -> None:
        text = f"{head}: {elapsed_s:.0f} s, {self._last_line()}"
        if self._live:
            print(f"{self._wipe()}{text[:118]}", end="", flush=True)
        else:
            print(f"        {text[:140]}", flush=True)

    def _last_line(self) -> str:
        with self.log_path.open("rb") as log:
            log.seek(max(0, self.log_path.stat().st_size - 4000))
            lines = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
        return next((line for line in reversed(lines) if line.startswith(TELLING)), "working")

    def _wipe(self) -> str:
        return "\r\x1b[K" if self._live else ""
