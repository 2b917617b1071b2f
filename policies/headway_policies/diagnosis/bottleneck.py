"""The bottlenecks of a server: a closed list, the label of ``headway_bottleneck``."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class Bottleneck(StrEnum):
    """The bottleneck of the server now; one at a time.

    engine_down      its engine is gone, and no other one is there yet
    engine_silent    the engine does not respond
    engine_stuck     the engine steps without any token
    stopped          no request is dispatched: a pause, a warm-up, a shutdown
    memory           the KV cache holds no more sequences
    host             other work on the machine takes the processors that the engine needs
    engine_speed     more seats would not serve more requests in time
    seats            the seats of the preset are taken
    ceiling          the seats that the engine was started with are taken
    capped_seats     fewer seats are open than the preset has: memory is short, the engine was restarted, or an instance
                     is away
    batch_formation  requests wait for a batch although seats are free
    held_seats       requests wait although seats are free: those are reserved for urgent classes
    request_size     requests wait although seats are free: each needs more seats or tokens at once than are free
    adapters         requests wait although seats are free: the engine runs as many LoRA adapters as it can at once
    bursts           requests are refused although most seats are free most of the time: they arrive in bursts
    long_steps       tokens come too slowly while no request waits: too many run at once, or long prompts beside them
    first_tokens     first tokens come too late although no request waits: long prompts
    engine_errors    requests fail in the engine
    time_outs        running requests do not finish within their time-outs
    invalid_requests clients send what the engine refuses
    fallback         a command has put the fallback ladder on a rung that degrades requests
    none             nothing: there is room for more requests
    unknown          too little is measured
    """

    ENGINE_DOWN = "engine_down"
    ENGINE_SILENT = "engine_silent"
    ENGINE_STUCK = "engine_stuck"
    STOPPED = "stopped"
    MEMORY = "memory"
    HOST = "host"
    ENGINE_SPEED = "engine_speed"
    SEATS = "seats"
    CEILING = "ceiling"
    CAPPED_SEATS = "capped_seats"
    BATCH_FORMATION = "batch_formation"
    RESERVED_SEATS = "held_seats"
    REQUEST_SIZE = "request_size"
    ADAPTERS = "adapters"
    BURSTS = "bursts"
    LONG_STEPS = "long_steps"
    FIRST_TOKENS = "first_tokens"
    ENGINE_ERRORS = "engine_errors"
    TIME_OUTS = "time_outs"
    INVALID_REQUESTS = "invalid_requests"
    FALLBACK = "fallback"
    NONE = "none"
    UNKNOWN = "unknown"


class Severity(IntEnum):
    """The severity of a finding.

    ok          every objective is kept, at most 1 % of the valid requests end without an answer
    watch       near a limit, or too little is measured to say more
    degraded    an objective is missed, requests fail, or requests are degraded by the fallback ladder
    overloaded  more arrives than can be served: requests are refused or run out of time, or the queue is too old
    down        no request is served
    """

    OK = 0
    WATCH = 1
    DEGRADED = 2
    OVERLOADED = 3
    DOWN = 4

    @property
    def word(self) -> str:
        """The name in lower case."""
        return self.name.lower()
