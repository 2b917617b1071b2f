"""The parser of Prometheus text, within bounds.

Prometheus' text format, read by its own parser and cut down to the families this dashboard knows. Engine names come
as ``vllm:x``, as ``vllm_x`` from servers that rewrite colons, and as ``ray_vllm_x`` from Ray: all become ``vllm:x``.
The parser copies the rest of a line for each of its labels: the length of a line has a bound. To parse a scrape takes
as long as to draw a page, and a server names the same series each time: then the values alone are read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

MAX_LINE_CHARS = 16 * 1024

SampleKey = tuple[str, tuple[tuple[str, str], ...]]

_ENGINE = re.compile(r"^(?:ray_)?vllm[:_]")
_KEPT = ("headway_", "vllm:")
#: Of the process the start alone: it tells a restart.
PROCESS_START = "process_start_time_seconds"
#: What stands before a value and a space: a name, or a name with labels.
_BARE, _LABELLED = re.compile(r"\S+$"), re.compile(r"[^}]*\}$")
_ENGINE_FACTS = re.compile(r"^vllm:.*_info$")


def canonical(name: str) -> str:
    """The spelling under which a metric is stored."""
    return _ENGINE.sub("vllm:", name)


def samples(text: str) -> Iterator[tuple[SampleKey, float]]:
    """The samples of one scrape. Raises ValueError for text that is not a scrape."""
    yield from ScrapeReader().read(text)


class ScrapeReader:
    """Reads the scrapes of one server, one after the other."""

    def __init__(self) -> None:
        self._heads: list[str] | None = None
        self._kept: list[tuple[int, SampleKey]] = []

    def read(self, text: str) -> list[tuple[SampleKey, float]]:
        """The samples of one scrape. Raises ValueError for text that is not a scrape."""
        lines = text.split("\n")
        if any(len(line) > MAX_LINE_CHARS for line in lines):
            raise ValueError(f"a line is longer than {MAX_LINE_CHARS} characters")
        parted = [_parted(line) for line in lines if line]
        heads, values = [head for head, _, _ in parted], [value for _, space, value in parted if space]
        numbers = _numbers(values)
        if heads == self._heads and numbers is not None:
            return [(key, numbers[at]) for at, key in self._kept]
        self._heads = None
        found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        kept = [(at, key) for at, sample in enumerate(found) if (key := _key(sample)) is not None]
        if numbers is not None and _are_told([head for head, space, _ in parted if space], numbers, found):
            self._heads, self._kept = heads, kept
        return [(key, found[at].value) for at, key in kept]


def _parted(line: str) -> tuple[str, str, str]:
    """What stands before the last word, the space, and that word; the whole line where it is no sample with a value."""
    return (line, "", "") if line.startswith("#") or " " not in line else line.rpartition(" ")


def _numbers(values: Sequence[str]) -> list[float] | None:
    """The values of a scrape; None where the parser has to look at them."""
    if any("_" in value for value in values):  # Python reads such numbers, Prometheus does not
        return None
    try:
        return [float(value) for value in values]
    except ValueError:
        return None


def _are_told(heads: Sequence[str], numbers: Sequence[float], found: Sequence[Sample]) -> bool:
    """Whether each sample is a line that ends with its value, so that what stands before it says all the rest."""
    return len(found) == len(numbers) and all(
        (_LABELLED if "{" in head else _BARE).match(head)
        and (number == sample.value or (math.isnan(number) and math.isnan(sample.value)))
        for head, number, sample in zip(heads, numbers, found, strict=True)
    )


def _key(sample: Sample) -> SampleKey | None:
    """The series of a sample; None for one that this dashboard does not know."""
    name = canonical(sample.name)
    known = name.startswith(_KEPT) or name == PROCESS_START
    if not known or name.endswith("_created") or _ENGINE_FACTS.match(name):
        return None
    return name, tuple(sorted(sample.labels.items()))
