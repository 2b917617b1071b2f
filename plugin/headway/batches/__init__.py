"""OpenAI's Batch API: files of requests that run in what the others leave, and survive a restart of the server.

    endpoint    the routes: files and batches of the tenant that asks
    upload      a form whose file goes to the disk as it comes
    service     what tenants do to their files and batches, with ``folder`` and ``store`` (SQLite) on the disk
    runner      runs the lines, each as a request of this process (``call``)
    metrics     batches and lines of all tenants, for Prometheus
    validation, pace, objects   what needs no disk: the check of a file, the deadline, the objects of the API

The lines themselves are read and written by ``headway.openai.batch_file``.
"""

from headway.batches.endpoint import BatchRoutes
from headway.batches.runner import BatchRunner, start_batches
from headway.batches.service import Batches

__all__ = ["BatchRoutes", "BatchRunner", "Batches", "start_batches"]
