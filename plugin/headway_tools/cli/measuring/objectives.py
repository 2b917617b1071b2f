"""The options of a command that judges requests by objectives: those of the preset for the class, unless told."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace

from headway_simulator.engine_model.capacity import Slo
from headway_tools.console import milliseconds

_USUAL = Slo()
#: The objectives of a class for which none is stated, in words.
USUAL_WORDS = f"{milliseconds(_USUAL.ttft_s)} ms and {milliseconds(_USUAL.inter_token_s)} ms"


def add_objectives(group: argparse._ArgumentGroup, read: Callable[[str], float]) -> None:
    """Add ``--slo-ttft-ms`` and ``--slo-inter-token-ms``; ``read`` reads a number above 0."""
    for flag, words in (
        ("--slo-ttft-ms", "the first token must come within this"),
        ("--slo-inter-token-ms", "the mean time between tokens must stay within this"),
    ):
        text = f"{words}, in every class (default: the objective that the preset states for the class)"
        group.add_argument(flag, type=read, metavar="MS", help=text)


def given_objectives(chosen: argparse.Namespace) -> Slo | None:
    """The given objectives for every class; None without any. An objective that is left out then is the usual one."""
    given = {"ttft_s": chosen.slo_ttft_ms, "inter_token_s": chosen.slo_inter_token_ms}
    told = {name: value_ms / 1000 for name, value_ms in given.items() if value_ms is not None}
    return replace(_USUAL, **told) if told else None
