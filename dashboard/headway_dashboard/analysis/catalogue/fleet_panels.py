"""Several servers as one: how evenly they are used, how many are ready, and their merged quantiles beside the worst."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue import palette, panels
from headway_dashboard.analysis.catalogue.latency_panels import END_TO_END, INTER_TOKEN
from headway_dashboard.analysis.catalogue.panels import Bound, Line, Panel
from headway_dashboard.analysis.queries.expressions import Gauge, Imbalance, Metric, Quantile, Worst

#: Below so many on every server their imbalance is chance.
LEAST = 5.0
SEATS_IMBALANCE = Imbalance(panels.SEATS, LEAST)
WAITING_IMBALANCE = Imbalance(panels.QUEUED, LEAST)
READY_SERVERS = Gauge(panels.READY.of)
SEATS_OF_ALL = panels.LIMIT
#: When the process of a server started, in seconds since the epoch; vLLM reports it unless it has several API servers.
STARTED_S = Gauge(Metric("process_start_time_seconds"), largest=True)
#: 1 where the last scrape of a server succeeded, else 0.
UP = Gauge(Metric("up"), largest=True)

DEFINITION = (
    "Imbalance is the largest value on a server divided by the mean of the servers that answer: 1 is even, and with "
    f"three servers 3 means that one has everything. There is no value while no server has {LEAST:g}."
)

IMBALANCE_PANEL = Panel(
    "fleet-imbalance",
    "Imbalance of seats and queues",
    f"Of occupied seats, and of waiting requests. {DEFINITION}",
    "count",
    (
        Line("occupied seats", SEATS_IMBALANCE, palette.BLUE),
        Line("waiting", WAITING_IMBALANCE, palette.ORANGE, "dash"),
    ),
    "Lasting and far above 1 while some servers have free seats: the load balancer ignores the load of the servers.",
    idle=f"no server had {LEAST:g} seats occupied or requests waiting in this time",
    bounds=(Bound("even", 1.0),),
)
CAPACITY_PANEL = Panel(
    "fleet-seats",
    "Seats of all servers",
    "Seats of all servers that answer, occupied seats among them, and requests that wait for a seat.",
    "count",
    (
        Line("seats", SEATS_OF_ALL, palette.GREY, "dot", "step"),
        Line("occupied", panels.SEATS, palette.BLUE),
        Line("waiting", panels.QUEUED, palette.ORANGE, "dash"),
    ),
    "Requests wait while seats are free: they are at the wrong server. All occupied: add a server.",
)
READY_PANEL = Panel(
    "fleet-ready",
    "Ready servers",
    "Servers that answer and take requests. The marks say which one appeared, was gone or restarted.",
    "count",
    (Line("ready", READY_SERVERS, palette.GREEN, kind="step"),),
    "A server that is up and not ready is warming up, paused or draining, or its engine is away.",
)


def _merged(id_: str, title: str, of: dict[float, Quantile], caption: str, idle: str) -> Panel:
    return Panel(
        id_,
        title,
        "p95 and p99 over the requests of all servers: the buckets of their histograms are summed before the quantile "
        "is read. Beside them the largest p95 of a single server. Quantiles are never averaged.",
        "seconds",
        (
            Line("p95 of all", of[0.95], palette.GREY),
            Line("p99 of all", of[0.99], palette.GREY, "dash"),
            Line("p95 of the worst server", Worst(of[0.95]), palette.BROWN, "dot"),
        ),
        caption,
        idle=idle,
    )


FIRST_TOKEN_PANEL = _merged(
    "fleet-first-token",
    "Time to first token, all and worst",
    panels.TTFT,
    "The worst far above all: few requests go there, or it has just become slow. Compare the rows of the table.",
    "no first tokens in this time",
)
INTER_TOKEN_PANEL = _merged(
    "fleet-inter-token",
    "Time between tokens, all and worst",
    INTER_TOKEN,
    "One server alone is slow: its batch is larger, its hardware is slower, or it shares a GPU.",
    "no request of two or more tokens completed in this time",
)
END_TO_END_PANEL = _merged(
    "fleet-end-to-end",
    "Time of whole requests, all and worst",
    END_TO_END,
    "Long answers take long: a server that gets the long ones is not at fault.",
    "no request completed in this time",
)
LOAD_SECTION = (IMBALANCE_PANEL, CAPACITY_PANEL)
LATENCY_SECTION = (FIRST_TOKEN_PANEL, INTER_TOKEN_PANEL, END_TO_END_PANEL, READY_PANEL)
FLEET_SECTION = (*LOAD_SECTION, *LATENCY_SECTION)
