"""The flags of ``headway serve`` that are Headway's own; all others are vLLM's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: Each flag and the word for its value; empty: a switch.
SERVE_FLAGS: Final[Mapping[str, str]] = {
    "--preset": "NAME|FILE",
    "--preset-dir": "DIR",
    "--no-warmup": "",
    "--quick-start": "",
}
_OWN: Final = " ".join(f"[{flag} {value}]" if value else f"[{flag}]" for flag, value in SERVE_FLAGS.items())
SERVE_USAGE: Final = f"headway serve MODEL {_OWN} [any vllm serve flag]"
