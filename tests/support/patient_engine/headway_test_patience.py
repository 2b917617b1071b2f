"""Engines that wait without spinning: a vLLM plugin of the tests' own, put on the path of the servers they start.

EngineCore and its worker look for each other's messages in a loop that takes a processor each until a second has passed
without a message. That makes a step quicker where processors are idle; beside other tests it takes the time of these.
"""

from __future__ import annotations

from functools import partial
from time import sleep

#: Much less than a step.
PAUSE_S = 0.0005


def register() -> None:
    """Let the loops of vLLM's message queues pause where they yield."""
    from vllm.distributed.device_communicators import shm_broadcast

    shm_broadcast.sched_yield = partial(sleep, PAUSE_S)
