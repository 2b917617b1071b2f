"""All figures of every part of a run, a table for each: the file beside the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from report import table

from serving.constants import Level
from serving.figures import ALL, BlockFigures, middle
from serving.results import Results

Spread = tuple[float, float, float]


def details(results: Results) -> Iterator[str]:
    """What batches gain, by the levels that the constants were fitted on; then every part with all its figures."""
    if results.constants is not None and results.constants.levels:
        yield "## Batches"
        yield _batches(results.constants.levels)
    for workload, load in results.parts():
        yield f"## {workload} at {load:g} times the load that is possible"
        head = [
            "",
            "goodput of what is possible",
            "tokens/s",
            "within objectives: realtime",
            "others",
            "first token, p50 / p95 / p99: realtime",
            "others",
            "a token, p50 / p95 / p99",
            "refused",
            "Jain's index",
            "first token of light tenants, p99",
            "CPU a request",
        ]
        rows = [
            _detail(words, blocks)
            for name, words in results.named(workload).items()
            if (blocks := results.of(workload, load, name))
        ]
        used = [place for place in range(len(head)) if any(row[place] != "-" for row in rows)]
        yield table([head[place] for place in used], [[row[place] for place in used] for row in rows])


def _batches(levels: Sequence[Level]) -> str:
    """So many requests at once, past Headway: tokens a second, and the time between the tokens of one of them."""
    alone = levels[0]
    rows = [
        [
            str(level.clients),
            f"{level.tokens_per_s:.0f}",
            f"{level.tokens_per_s / alone.tokens_per_s:.1f}",
            f"{1000 * level.inter_token_s:.0f} ms",
            f"{level.inter_token_s / alone.inter_token_s:.1f}",
        ]
        for level in levels
    ]
    return table(["at once", "tokens/s", "gain", "time per token", "times as long"], rows)


def _detail(words: str, blocks: list[BlockFigures]) -> list[str]:
    """One arm of one part, the median of its rounds."""

    def attained(name: str) -> str:
        return percent(middle(block.attained(name) for block in blocks))

    def quantiles(name: str, figure: str, factor: float, unit: str) -> str:
        own = [getattr(block.classes[name], figure) for block in blocks if name in block.classes]
        found = [middle(values) for values in zip(*own, strict=True)]
        if not found or found[0] is None:
            return "-"
        return " / ".join("-" if one is None else f"{factor * one[0]:.3g}" for one in found) + f" {unit}"

    fair = middle(block.fairness for block in blocks)
    light_s = middle(block.light_ttft_p99_s for block in blocks)
    tokens, refused, client_s = (
        middle(getattr(block, name) for block in blocks) for name in ("tokens_per_s", "refused", "client_s")
    )
    assert tokens is not None
    assert refused is not None
    assert client_s is not None
    return [
        words,
        percent(middle(block.of_ceiling for block in blocks)),
        f"{tokens[0]:.0f}",
        attained("realtime"),
        attained("normal"),
        quantiles("realtime", "ttft_s", 1, "s"),
        quantiles("normal", "ttft_s", 1, "s"),
        quantiles(ALL, "inter_token_s", 1000, "ms"),
        f"{refused[0]:.0%}",
        "-" if fair is None else f"{fair[0]:.3f}",
        "-" if light_s is None else f"{light_s[0]:.2f} s",
        f"{1000 * client_s[0]:.1f} ms",
    ]


def percent(spread: Spread | None) -> str:
    """The median of rounds with the least and the largest, where they differ."""
    if spread is None:
        return "-"
    one, least, most = spread
    return f"{one:.0%}" if least == most else f"{one:.0%} ({least:.0%} to {most:.0%})"
