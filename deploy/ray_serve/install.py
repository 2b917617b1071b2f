"""The environment of `make fleet`: Ray alone, before everything of `.venv`.

Ray Serve brings twenty packages that no part of Headway imports. They are pinned here, in ``constraints.txt`` beside
this file, and what both environments have in common is that of `.venv` with its own pins. So `make setup` and its lock
stay as they are. Run by the `python` of `.venv`; a second run with nothing changed ends at once.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / "out" / "fleet" / "venv"
BASE = ROOT / ".venv"
PINS = (ROOT / "constraints.txt", Path(__file__).with_name("constraints.txt"))
RAY = "ray[serve]"
_STAMP = VENV / "installed.txt"


def main() -> int:
    """Install, or say in one line why that cannot be; the exit code is 0 or 1."""
    wanted = _fingerprint()
    if _STAMP.exists() and _STAMP.read_text() == wanted:
        return 0
    print("        Ray Serve: installing into out/fleet/venv", flush=True)
    shutil.rmtree(VENV, ignore_errors=True)
    try:
        _run(sys.executable, "-m", "venv", str(VENV))
        (own,) = VENV.glob("lib/python3*/site-packages")
        (base,) = BASE.glob("lib/python3*/site-packages")
        (own / "base.pth").write_text(f"import site; site.addsitedir({str(base)!r})\n")
        pins = [word for path in PINS for word in ("-c", str(path))]
        _run(str(VENV / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", *pins, RAY)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        text = getattr(error, "stderr", None) or str(error)
        print(f"Ray Serve could not be installed: {(text.strip().splitlines() or [''])[-1][:300]}", file=sys.stderr)
        return 1
    _STAMP.write_text(wanted)
    return 0


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def _fingerprint() -> str:
    """The digest of what decides on the installation: the pins, this script, its place, the Python."""
    digest = hashlib.sha256(f"{VENV} {sys.version}".encode())
    for path in (*PINS, Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
