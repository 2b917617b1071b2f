"""The server's diagnosis of itself: sampled once a second, judged every few seconds.

Reading the last one costs nothing, so that a scrape or a status has no part in it. The rules are those of
``headway_policies.diagnosis``.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import replace

from headway.admission import Gate
from headway.background_tasks import next_turn_s, sleep_until_turn
from headway.operator.status.server_facts import FactsReader, Sample, steps_lately
from headway_policies.diagnosis import Bottleneck, Diagnosis, Facts, Severity, diagnose, restated
from headway_policies.step import StepFigures

log = logging.getLogger(__name__)

SAMPLE_EVERY_S = 1.0
JUDGE_EVERY_S = 5.0
#: Samples are kept for so many seconds.
KEEP_S = 300.0
_BETTER_TIMES = 3


class Diagnostics:
    """The diagnosis of one server: ``last``, which at first knows nothing. Call it on the event loop's thread only."""

    def __init__(self, gate: Gate, reader: FactsReader) -> None:
        self.last = diagnose(Facts())
        self._facts = Facts()  # what ``last`` was made of
        self._gate = gate
        self._reader = reader
        self._samples: deque[Sample] = deque(maxlen=round(KEEP_S / SAMPLE_EVERY_S) + 1)
        self._revision: int | None = None
        self._better = 0

    async def run(self) -> None:
        """Sample and judge, for as long as the server runs."""
        due_s = 0.0
        while True:
            try:
                if self.sample() or self._gate.now_s() >= due_s:
                    due_s = next_turn_s(JUDGE_EVERY_S)
                    self.judge()
            except Exception:  # an error here must not leave an old diagnosis standing for ever
                log.exception("diagnostics: iteration failed")
                self._facts, self.last = Facts(), diagnose(Facts())
            await sleep_until_turn(SAMPLE_EVERY_S)

    def sample(self) -> bool:
        """Keep how the server is now, and say it in the statement. The state before a switch says nothing of the preset
        in force: whether there was one.

        The diagnosis from before a switch does not hold up the next one either.
        """
        revision = self._gate.desk.mode.revision
        switched = revision != self._revision
        if switched:
            self._revision, self._better = revision, _BETTER_TIMES
            self._samples.clear()
        now = self._reader.sample()
        self._samples.append(now)
        self._facts = replace(
            self._facts,
            seats_now=now.seats_taken,
            limit_now=now.limit,
            queued_now=now.queued,
            oldest_wait_s=now.oldest_wait_s,
        )
        self.last = restated(self.last, self._facts)
        return switched

    def judge(self) -> Diagnosis:
        """Diagnose the last half minute. A better diagnosis must be made three times in a row; worse counts at once."""
        facts = self.facts()
        before, found = self.last, diagnose(facts)
        self._better = self._better + 1 if found.severity < before.severity else 0
        if 0 < self._better < _BETTER_TIMES and before.bottleneck is not Bottleneck.UNKNOWN:
            return before
        self.last, self._facts, self._better = found, facts, 0
        troubled = found.severity > Severity.WATCH
        if troubled != (before.severity > Severity.WATCH):
            level = logging.WARNING if troubled else logging.INFO
            log.log(level, "diagnosis: %s (%s): %s", found.severity.word, found.bottleneck, found.sentence)
        return found

    def facts(self) -> Facts:
        """The facts that are known now."""
        return self._reader.facts(self._samples)

    def steps(self) -> StepFigures | None:
        """The effect of the step policy in the last half minute; None where no step was planned yet."""
        return steps_lately(self._samples, self._gate.now_s())
