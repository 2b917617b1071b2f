"""The report of the warm-up, attempt by attempt."""

from __future__ import annotations

from dataclasses import dataclass, field

from headway_policies.engine import Stage

_AGAIN = "again, after "


@dataclass(slots=True)
class WarmupReport:
    """The state: pending, running, done, skipped or failed; of each stage that ran, the seconds of every round.

    ``reason`` says in one line what failed, and stays while the warm-up is retried. ``refused`` are the stages that the
    engine would not run. ``settled`` says whether the last two batches took equally long. ``first_token_s`` are the
    seconds to the first token, by stage, where the engine streams.
    """

    state: str = "pending"
    reason: str = ""
    batch_size: int | None = None
    attempt: int = 0
    stages: dict[str, list[float]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    settled: bool = False
    first_token_s: dict[str, float] = field(default_factory=dict)

    @property
    def first_token_ratio(self) -> float | None:
        """The first token of a request alone on the cold engine, as a multiple of that on the warm one."""
        cold_s, warm_s = self.first_token_s.get(Stage.SINGLE), self.first_token_s.get(Stage.ALONE)
        return cold_s / warm_s if cold_s and warm_s else None

    @property
    def warm(self) -> bool:
        """Whether the engine needs no warm-up any more."""
        return self.state in ("done", "skipped")

    @property
    def single_s(self) -> float | None:
        """The time that a request alone took."""
        return self.last_s().get("single")

    @property
    def batch_s(self) -> float | None:
        """The time that the last full batch took."""
        return self.last_s().get("batch")

    def last_s(self) -> dict[str, float]:
        """The time that each stage took in its last round."""
        return {stage: rounds_s[-1] for stage, rounds_s in self.stages.items()}


class WarmupState:
    """The report of the present or the last attempt to warm the engine up.

    ``skip``: this server runs no warm-up by itself, whatever a command has run.
    """

    def __init__(self, *, skip: bool = False) -> None:
        self.skip = skip
        self.report = WarmupReport(state="skipped" if skip else "pending")

    def reset(self) -> None:
        """Forget all attempts: another engine needs a warm-up of its own."""
        self.skip = False
        self.report = WarmupReport()

    def begin(self, batch_size: int) -> WarmupReport:
        """Begin an attempt, whose report still says why the last one failed."""
        why = self.report.reason.removeprefix(_AGAIN)
        self.report = WarmupReport("running", why and _AGAIN + why, batch_size, self.report.attempt + 1)
        return self.report

    def replace(self, before: WarmupReport, after: WarmupReport) -> None:
        """Show another report, unless the engine was replaced and has a report of its own."""
        if self.report is before:
            after.attempt = before.attempt
            self.report = after
