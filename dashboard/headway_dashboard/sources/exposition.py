"""The parser of Prometheus text, within bounds.

Prometheus' text format, read by its own parser and cut down to the families this dashboard knows. Engine names come
as ``vllm:x``, as ``vllm_x`` from servers that rewrite colons, and as ``ray_vllm_x`` from Ray: all become ``vllm:x``.
The parser copies the rest of a line for each of its labels: the length of a line has a bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families

MAX_LINE_CHARS = 16 * 1024

SampleKey = tuple[str, tuple[tuple[str, str], ...]]

_ENGINE = re.compile(r"^(?:ray_)?vllm[:_]")
_KEPT = ("headway_", "vllm:")
#: Of the process the start alone: it tells a restart.
PROCESS_START = "process_start_time_seconds"
_ENGINE_FACTS = re.compile(r"^vllm:.*_info$")


def canonical(name: str) -> str:
    """The spelling under which a metric is stored."""
    return _ENGINE.sub("vllm:", name)


def samples(text: str) -> Iterator[tuple[SampleKey, float]]:
    """The samples of one scrape. Raises ValueError for text that is not a scrape."""
    if any(len(line) > MAX_LINE_CHARS for line in text.split("\n")):
        raise ValueError(f"a line is longer than {MAX_LINE_CHARS} characters")
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = canonical(sample.name)
            known = name.startswith(_KEPT) or name == PROCESS_START
            if known and not name.endswith("_created") and not _ENGINE_FACTS.match(name):
                yield (name, tuple(sorted(sample.labels.items()))), sample.value
