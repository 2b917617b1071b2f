"""From a bare Python 3.11 to a working `.venv`: vLLM's CPU build, Headway, its dashboard and its development tools.

Run by the system's own `python3` from a fresh clone; needs only the standard library. A second run with nothing
changed ends at once. `--lock` renews constraints.txt, `--with-system-packages` also installs what the tests use.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import sys
from pathlib import Path

from environment import PYTHON, ROOT, install, write_lock
from machine import check_machine, system_packages
from progress import Progress, StepError

VENV = ROOT / ".venv"
STAMP = VENV / "bootstrap.stamp"
DECIDING = ("pyproject.toml", "constraints.txt", "deploy/bootstrap.py", "deploy/environment.py")


def main(argv: list[str] | None = None) -> int:
    """Set up, or say in one line why that cannot be; the exit code is 0, 1 (failed) or 130 (stopped)."""
    options = _options(argv)
    log_path = VENV / "bootstrap.log"
    progress = Progress(steps=7, log_path=log_path)
    try:
        with Path(__file__).open() as own_file:
            _wait_for_turn(own_file.fileno())
            check_machine(ROOT, is_new=not VENV.exists())
            if options.lock:
                write_lock()
                return 0
            system_packages(for_tests=options.with_system_packages)
            if _is_current():
                return 0
            STAMP.unlink(missing_ok=True)
            install(VENV, progress)
            STAMP.write_text(_fingerprint())
        print(f"        ready: .venv, {progress.elapsed_s:.0f} s", flush=True)
    except StepError as error:
        if progress.step:
            print(f"\nThe end of {log_path}:\n{progress.tail()}", file=sys.stderr)
        print(f"\nset-up stopped: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nset-up stopped by Ctrl-C; run the same command again to go on.", file=sys.stderr)
        return 130
    return 0


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bootstrap.py", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--lock", action="store_true", help="renew constraints.txt from a fresh, unpinned install")
    parser.add_argument(
        "--with-system-packages", action="store_true", help="apt-get the browser and Prometheus that the tests use"
    )
    return parser.parse_args(argv)


def _wait_for_turn(own_file: int) -> None:
    """Hold this file's lock, so that `make demo` and `make test` can be started at the same time."""
    try:
        fcntl.flock(own_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("        another set-up of this folder is running: waiting for it", flush=True)
        fcntl.flock(own_file, fcntl.LOCK_EX)


def _is_current() -> bool:
    tools_are_there = all((VENV / "bin" / tool).exists() for tool in ("python", "vllm", "headway", "pytest"))
    return tools_are_there and STAMP.exists() and STAMP.read_text() == _fingerprint()


def _fingerprint() -> str:
    """The digest of what decides on the installation: project file, pins, these scripts, their place, the Python."""
    digest = hashlib.sha256(f"{VENV} {PYTHON} {sys.version}".encode())
    for path in (ROOT / name for name in DECIDING):
        digest.update(path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
