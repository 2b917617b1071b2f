"""Wait, before a server gets SIGTERM, until no request waits in its queue.

Kubernetes takes a Pod that ends out of its Services and runs this at the same time. Nothing new arrives after a few
seconds, and what waits still gets its seat; on SIGTERM it would be refused. Needs no token: ``/metrics`` is open, and
where it has been closed, the script returns after the first seconds. Uses Python's standard library only, and always
exits with 0, since a failed hook would only add an event.
"""

import argparse
import re
import time
import urllib.request

_DEPTH = re.compile(r"^headway_queue_depth(?:\{[^}]*\})? ([0-9.eE+]+)$", re.MULTILINE)
_TIMEOUT_S = 4.0
_POLL_S = 0.5


def waiting(url: str) -> float:
    """Requests that wait on the server, over all classes. Raises OSError where it does not answer with its metrics."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=_TIMEOUT_S) as answer:  # nosec B310 - its own container's URL
        return sum(float(depth) for depth in _DEPTH.findall(answer.read().decode()))


def main() -> None:
    """Wait ``--settle`` seconds, then until the queue is empty, in all ``--at-most`` seconds more."""
    parser = argparse.ArgumentParser(description="Wait until the queue of a server is empty.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--settle", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--at-most", type=float, required=True, metavar="SECONDS")
    asked = parser.parse_args()
    time.sleep(asked.settle)
    ends_s = time.monotonic() + asked.at_most
    try:
        while waiting(asked.url) and time.monotonic() < ends_s:
            time.sleep(_POLL_S)
    except (OSError, ValueError) as error:
        print(f"headway: the queue is not waited for: {asked.url}/metrics: {error}")


if __name__ == "__main__":
    main()
