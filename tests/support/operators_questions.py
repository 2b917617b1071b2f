"""The questions of an operator at night with the words of their answers, and a server in trouble that has them all."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import live_stand_in
import pytest
from live_stand_in import LiveStandIn
from small_presets import balanced_without_fallback
from usage_records import opened, usage_record

from headway.api import AdminClient
from headway.logs.last_warnings import LastWarnings, keep_last_warnings
from headway.operator.status.launch import launch_status

BAND, CHANGES = ".st-key-headway-headline", ".st-key-headway-changes"
#: Sixteen seats of two seconds and forty places in the queue, for seventy clients.
NARROW = """
[batching]
seats = 16
[limit]
policy = "fixed"
memory_aware = false
[classes.normal]
ttft_slo_s = 1
inter_token_slo_ms = 400
max_waiting = 40
"""
SERVER, TENANTS = ("link", "Server & diagnostics"), ("link", "Tenants")
CONFIGURATION = ".st-key-headway-configuration"
Clicks = tuple[tuple[str, str], ...]
#: The last line of what is told to others: no test without a browser has an address.
LINK = ".*Link: http:"
BUDGET_LEFT = "error budget left"

#: By the clicks from the first screen: each question, where its answer stands, and its words.
ANSWERS: dict[Clicks, dict[str, tuple[str, str]]] = {
    (): {
        "which class": (BAND, r"of [\d,]+ requests of class normal .* are refused"),
        "engine or queue or host": (BAND, r"Why: .*seats"),
        "since when": (BAND, r"since \d\d:\d\d"),
        "who changed what, and why": (CHANGES, r"narrow → latency.*ann.*a try"),
        BUDGET_LEFT: (".headway-class-rows tbody tr:nth-child(2) [data-title='Budget left']", r"\d\s%"),
    },
    (("button", "Copy incident"),): {
        "what to tell others": (
            "[data-testid='stPopoverBody'] code",
            r"\d UTC, overloaded, since.*State: .*class normal.*Why: .*Class normal: .*Change .*ann" + LINK,
        )
    },
    (TENANTS,): {"which tenant": (".st-key-headway-tenants-held-back", r"held had 14 of 20 requests")},
    (TENANTS, ("link", "held")): {"what of that tenant": (".st-key-headway-tenant-parts", r"queue full")},
    (SERVER,): {
        "the log's last warnings": (".st-key-headway-warnings", r"warning\s*the disk is nearly full"),
        "health of each source": (".st-key-headway-sources", r"direct scrape\s*answers.*admin API\s*answers"),
    },
    (SERVER, ("text", "Configuration")): {
        "launch arguments": (f"{CONFIGURATION} code", r"headway serve a-model --port 8000$"),
        "effective configuration": (CONFIGURATION, r"classes\.normal\.max_waiting\s*40"),
    },
}


@contextmanager
def troubled_server(folder: Path) -> Iterator[LiveStandIn]:
    """A server that refuses most of its requests, and of which there is something to tell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["/usr/bin/headway", "serve", "a-model", "--port", "8000"])
        launch_status.cache_clear()
        preset = balanced_without_fallback(NARROW).model_copy(update={"name": "narrow"})
        keep_last_warnings()
        with opened(folder / "usage.db") as usage, LiveStandIn(preset, clients=70, usage=usage) as live:
            live.engine.base_s = 0.1
            logging.getLogger("headway.tried").warning("the disk is nearly full")
            for tenant, number, refused in (("loud", 900, ""), ("held", 6, ""), ("held", 14, "queue_full")):
                group = {"reason": refused, "outcome": "rejected_full" if refused else "completed"}
                for _ in range(number):
                    usage.add(usage_record(tenant, time.time(), **group, output_tokens=0 if refused else 1000))
            client = AdminClient(live.url, live_stand_in.TOKEN)
            client.switch("latency", revision=1, reason="a try", actor="ann")
            client.undo(revision=2, reason="no better", actor="ann")
            yield live
        ours = logging.getLogger("headway")
        for handler in [one for one in ours.handlers if isinstance(one, LastWarnings)]:
            ours.removeHandler(handler)
    launch_status.cache_clear()
