"""The process that compiles grammars, with a compiler that does what the pattern says: for tests without an engine."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from headway.vllm_adapter.grammars.compile_server import CompileServer, first_frame
from headway.vllm_adapter.grammars.frames import Frames, Report, Verdict, packed


def compile_one(fields: dict[str, Any]) -> None:
    """``spin`` uses the processor, ``eat`` memory, ``sleep`` time; ``bad`` is no grammar; all else is compiled."""
    match fields["regex"].split()[0]:
        case "spin":
            while True:
                pass
        case "eat":
            held = []
            while True:
                held.append(bytearray(1 << 24))
        case "sleep":
            time.sleep(3600)
        case "wait":
            time.sleep(0.5)
        case "bad":
            raise ValueError


def main() -> int:
    """As ``compile_server`` does. ``TOY_COMPILER=broken`` ends it at once, ``slow`` lets it never be ready."""
    if os.environ.get("TOY_COMPILER") == "broken":
        return 3
    if os.environ.get("TOY_COMPILER") == "slow":
        time.sleep(3600)
    orders, reports, frames = os.dup(0), os.dup(1), Frames()
    silence = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):
        os.dup2(silence, standard)
    start = first_frame(frames, orders)
    os.write(reports, packed(Report(0, Verdict.FITS)))
    CompileServer(compile_one, start.limits, orders, reports).run(frames)
    return 0


if __name__ == "__main__":
    sys.exit(main())
