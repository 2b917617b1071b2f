"""The traffic of a running server over a few seconds, from two samples of its status and metrics."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from headway.api import AdminClient, Status
from headway.console import check_lines, fetch_metrics
from headway_policies.limits import LimitSettings
from headway_policies.preset import Traffic

_INTER_TOKEN = "vllm:inter_token_latency_seconds"  # noqa: S105  # a metric, no secret

#: (name of a sample, its ``le`` or "") -> the sum over all other labels
Samples = Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class Look:
    """A server at one moment."""

    status: Status
    samples: Samples


def watch(client: AdminClient, over_s: float) -> Traffic:
    """Take a sample, wait ``over_s`` seconds, take another. Raises the errors of the client."""
    before = Look(client.status(), fetch_samples(client.url))
    time.sleep(over_s)
    after = Look(client.status(), fetch_samples(client.url))
    return between(before, after, client.preset().settings, over_s)


def between(before: Look, after: Look, settings: Mapping[str, object], over_s: float) -> Traffic:
    """What happened between two samples, under a preset with these settings."""
    grown = {key: value - before.samples.get(key, 0.0) for key, value in after.samples.items()}
    steps = grown.get(("headway_batch_size_count", ""), 0.0)
    slo_ms = settings.get("limit.inter_token_slo_ms", LimitSettings().inter_token_slo_ms)
    return Traffic(
        over_s=over_s,
        strategy=str(settings.get("batching.strategy", "continuous")),
        adaptive=settings.get("limit.policy", "fixed") != "fixed" and not settings.get("limit.shadow", False),
        limit=after.status.limit.live,
        ceiling=after.status.limit.ceiling,
        seats_taken=after.status.seats_taken,
        queued_before=before.status.queued,
        queued=after.status.queued,
        arrivals=round(grown.get(("headway_arrivals_total", ""), 0.0)),
        kv_usage_ratio=after.samples.get(("headway_engine_kv_cache_usage_ratio", ""), 0.0),
        inter_token_slo_ms=float(str(slo_ms)),
        mean_batch=grown[("headway_batch_size_sum", "")] / steps if steps > 0 else None,
        inter_token_ms=_p95_ms(grown),
        preemptions=round(grown.get(("vllm:num_preemptions_total", ""), 0.0)),
    )


def fetch_samples(url: str) -> Samples:
    """What ``/metrics`` shows. Raises ServerUnreachableError."""
    return fetch_metrics(url, read_samples)


def read_samples(text: str) -> Samples:
    """Prometheus text as sums. Raises ValueError for anything else."""
    check_lines(text)
    samples: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, sample.labels.get("le", ""))
            samples[key] = samples.get(key, 0.0) + sample.value
    return samples


def _p95_ms(grown: Samples) -> float | None:
    """The bound of the bucket that 95 % of the new tokens are within; None without tokens."""
    name = f"{_INTER_TOKEN}_bucket"
    buckets = sorted((float(le), count) for (sample, le), count in grown.items() if sample == name)
    if not buckets or buckets[-1][1] <= 0:
        return None
    wanted = 0.95 * buckets[-1][1]
    return 1000 * next(bound_s for bound_s, count in buckets if count >= wanted)
