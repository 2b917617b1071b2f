"""The most sequences that a rank of the engine runs."""

from __future__ import annotations

from typing import Any


def most_active(scheduler_config: Any) -> int:
    """``--max-num-active-seqs``, where vLLM has it and it is given, else the ``--max-num-seqs`` of the model runner."""
    most = getattr(scheduler_config, "max_num_active_seqs", None)
    return int(scheduler_config.max_num_seqs if most is None else min(most, scheduler_config.max_num_seqs))
