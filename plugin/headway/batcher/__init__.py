"""Batches of any function from single calls: the desk of the server, without a server.

batcher    asyncio: submit, stats, drain
threads    the same for programs with threads
function   the batch function: async or plain, its results checked
settings   the arguments as a preset
member     a request in a batcher
request    a request and the settings as plain data
stats      the counts of a batcher
queue      a priority queue alone
"""

from headway.batcher.batcher import Batcher
from headway.batcher.queue import PrioritizedRequest, PriorityRequestQueue
from headway.batcher.request import BatchConfig, InferenceRequest
from headway.batcher.stats import BatcherStats
from headway.batcher.threads import SyncBatcher

__all__ = [
    "BatchConfig",
    "Batcher",
    "BatcherStats",
    "InferenceRequest",
    "PrioritizedRequest",
    "PriorityRequestQueue",
    "SyncBatcher",
]
