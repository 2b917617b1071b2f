"""A custom window: its answers are bounded, and its failures hold no batch up."""

from __future__ import annotations

import math
from typing import Any

import pytest
from small_presets import small_preset

from headway_policies import Desk, Dispatch, PresetError, Ticket, WakeAt, parse_preset
from headway_policies.batching import Gathered, SafeWindow, make_window
from headway_policies.batching.window import FixedWindow
from headway_policies.conformance import failures

LONGEST_S = 0.2
NOTHING = Gathered(1, 8, opened_s=0.0)


class Custom(FixedWindow):
    """Returns what a test gives it, or raises it."""

    answer: Any = 0.05
    seen: Any = None

    def length_s(self, gathered: Gathered, now_s: float) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def arrived(self, seats: int, now_s: float) -> None:
        if self.seen is not None:
            self.seen.append(("arrived", seats, now_s))

    def batch_done(self, seats: int, duration_s: float, now_s: float) -> None:
        if self.seen is not None:
            self.seen.append(("batch_done", seats, duration_s, now_s))


def custom(answer: Any) -> SafeWindow:
    """A window that returns, or raises, this answer."""
    kind = type("Answering", (Custom,), {"answer": answer, "seen": []})
    return SafeWindow(kind(LONGEST_S), LONGEST_S)


@pytest.mark.parametrize(
    ("answer", "length_s"), [(0, 0.0), (0.05, 0.05), (LONGEST_S, LONGEST_S), (7.0, LONGEST_S), (math.inf, LONGEST_S)]
)
def test_an_answer_holds_up_to_the_presets_window(answer: float, length_s: float) -> None:
    """A longer one is cut: no request waits longer than window_ms for a batch."""
    window = custom(answer)
    assert (window.length_s(NOTHING, 0.0), window.failed) == (length_s, None)


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        (-0.001, "length_s gave a wrong answer"),
        (math.nan, "length_s gave a wrong answer"),
        (None, "length_s gave a wrong answer"),
        ("50 ms", "length_s gave a wrong answer"),
        (LookupError("no figure"), "length_s raised LookupError"),
        (SystemExit(0), "length_s raised SystemExit"),
    ],
    ids=str,
)
def test_after_a_failure_the_fixed_window_applies(answer: object, failed: str) -> None:
    """From the first failure on, and the custom window gets no further event."""
    window: Any = custom(answer)
    theirs = window._window
    assert [window.length_s(NOTHING, 0.0) for _ in range(2)] == [LONGEST_S] * 2
    window.arrived(1, 1.0)
    window.batch_done(8, 0.5, 2.0)
    assert (window.failed, theirs.seen) == (failed, [])


def test_events_reach_a_custom_window() -> None:
    """Arrivals and batches, as they come."""
    window: Any = custom(0.05)
    window.arrived(3, 1.0)
    window.batch_done(8, 0.5, 2.0)
    assert window._window.seen == [("arrived", 3, 1.0), ("batch_done", 8, 0.5, 2.0)]


@pytest.mark.parametrize("event", ["arrived", "batch_done"])
def test_a_failure_to_learn_disables_it_too(event: str) -> None:
    """The error does not reach the desk."""

    def fail(self: object, *_: object) -> None:
        raise KeyError(event)

    window = SafeWindow(type("Failing", (Custom,), {event: fail})(LONGEST_S), LONGEST_S)
    window.arrived(1, 0.0)
    window.batch_done(1, 0.1, 0.2)
    assert window.failed == f"{event} raised KeyError"
    assert window.length_s(NOTHING, 0.0) == LONGEST_S


def dynamic(window: str) -> Any:
    return small_preset(8, batching={"strategy": "dynamic", "window": window, "window_ms": 200})


def test_a_preset_names_a_custom_window_and_its_batches_leave_whatever_it_does() -> None:
    """Half the window while it works; the whole one when it has failed, which the desk reports."""
    desk = Desk(dynamic("faulty_policy:FaultyWindow"))
    assert WakeAt(0.1) in desk.arrive(Ticket(1, "normal", 0.0), now_s=0.0)
    assert desk.tick(0.19) == [WakeAt(0.2)]
    assert desk.read(0.0).window_failed == "length_s raised LookupError"
    assert any(isinstance(one, Dispatch) for one in desk.tick(0.2))
    desk.switch(dynamic("fixed"), 0.3)
    assert desk.read(0.0).window_failed is None


def test_a_window_that_cannot_be_made_changes_nothing() -> None:
    """A switch to it raises before the preset in force changes; a preset file with it is refused."""
    desk = Desk(dynamic("fixed"))
    unwilling = dynamic("fixed")
    batching = unwilling.batching.model_copy(update={"window": "faulty_policy:Unwilling"})
    with pytest.raises(RuntimeError, match="licence"):
        desk.switch(unwilling.model_copy(update={"batching": batching}), 1.0)
    assert (desk.preset.batching.window, desk.mode.revision) == ("fixed", 1)
    text = 'name = "mine"\nextends = "balanced"\nbatching.window = "faulty_policy:Unwilling"\n'
    with pytest.raises(PresetError, match=r"batching\.window: faulty_policy:Unwilling cannot be created: RuntimeError"):
        parse_preset(text, "mine.toml")
    with pytest.raises(PresetError, match=r"batching\.window: faulty_policy has no Absent"):
        parse_preset(text.replace("Unwilling", "Absent"), "mine.toml")


def test_the_suite_of_a_preset_checks_its_window() -> None:
    """`headway preset validate` reports a window that raises."""
    (issue,) = failures(dynamic("faulty_policy:FaultyWindow"))
    assert (issue.where, "LookupError" in issue.message) == ("batching.window", True)
    assert failures(dynamic("headway_policies.batching.window:AdaptiveWindow")) == []


def test_what_a_custom_window_has_learnt_is_kept_where_the_batching_does_not_change() -> None:
    """A switch that changes the order alone keeps the window."""
    preset = dynamic("headway_policies.batching.window:AdaptiveWindow")
    desk: Any = Desk(preset)
    window = desk._scheduler.window
    other = preset.model_copy(update={"ordering": preset.ordering.model_copy(update={"inside": "edf"})})
    desk.switch(other, 1.0)
    assert desk._scheduler.window is window
    assert isinstance(make_window("headway_policies.batching.window:FixedWindow", 50), SafeWindow)
