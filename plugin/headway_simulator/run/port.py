"""What the shell needs: something that decides, a desk or a stand-in for it, and something that serves, an engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from headway_policies import Effect, Ending, Ledger, Load, Preset, Ticket
from headway_policies.request import Usage
from headway_simulator.engine_model.engine import EngineModel, Sequence, Steps


class Front(Protocol):
    """The events of a desk (``headway_policies.Desk``); each returns the effects to carry out."""

    @property
    def preset(self) -> Preset | None:
        """The preset in force; None for an engine alone."""
        ...

    @property
    def ledger(self) -> Ledger:
        """The counts of all requests so far."""
        ...

    @property
    def limit(self) -> int:
        """The seats that are open."""
        ...

    def arrive(self, ticket: Ticket, now_s: float) -> list[Effect]:
        """A request arrived."""
        ...

    def leave(self, ticket_id: int, ending: Ending, now_s: float, usage: Usage | None = None) -> list[Effect]:
        """A request is over."""
        ...

    def first_token(self, ticket_id: int, now_s: float) -> list[Effect]:
        """Its first token came."""
        ...

    def token_batch(self, ticket_id: int, now_s: float) -> list[Effect]:
        """More of its tokens came."""
        ...

    def observe(self, load: Load, now_s: float) -> list[Effect]:
        """The engine made a step."""
        ...

    def tick(self, now_s: float) -> list[Effect]:
        """The time of the last ``WakeAt`` has come."""
        ...

    def drain(self, now_s: float) -> list[Effect]:
        """Refuse all that wait."""
        ...


class Serving(Protocol):
    """One engine or several on a virtual clock (``engine_model.Engine``): ``begin`` a step, then ``finish`` it."""

    @property
    def model(self) -> EngineModel:
        """The constants of the engine; of several the first one's."""
        ...

    @property
    def ends_s(self) -> float:
        """The end of the next step that ends, infinity where there is none; after ``finish`` that of the last one."""
        ...

    @property
    def startable(self) -> bool:
        """Whether an idle engine has something to begin with."""
        ...

    @property
    def waiting(self) -> int:
        """Sequences in the line of an engine."""
        ...

    @property
    def running(self) -> Iterable[Sequence]:
        """The sequences that run."""
        ...

    @property
    def interrupted(self) -> list[Sequence]:
        """Those that decoded until the step in progress began, and were preempted then."""
        ...

    @property
    def kv_usage_ratio(self) -> float:
        """The share of the KV blocks in use."""
        ...

    def could_hold(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Whether a sequence fits into the whole KV space of an engine."""
        ...

    def submit(self, sequence: Sequence) -> None:
        """Take a sequence."""
        ...

    def abort(self, sequence: Sequence) -> None:
        """Drop a sequence at the end of the step in progress."""
        ...

    def begin(self, now_s: float) -> None:
        """Begin the next step after ``finish``, and that of every engine that is ``startable``."""
        ...

    def finish(self, until_s: float, most_steps: int) -> Steps:
        """End the step at ``ends_s``, and with it as many equal ones as end by ``until_s``, at most ``most_steps``."""
        ...
