"""The terms of a trial as they are typed, and a trial as text."""

from __future__ import annotations

import pytest

from headway.api.schema import EndedRequests, ServedByClass, ServedFigures, Trial, TrialCondition
from headway_dashboard.analysis.changes.trial_terms import read_terms, with_refusals
from headway_dashboard.analysis.changes.trial_words import condition_rows, figure_rows, head_words, worse_words

CLASSES = ("realtime", "normal")


def trial(**given: object) -> Trial:
    """A trial that goes on."""
    known = {"name": "latency", "revision": 4, "back_to": "balanced", "left_s": 540.0, "revert_after_s": 600.0}
    return Trial.model_validate(known | given)


def spaced(text: str) -> str:
    """With plain spaces."""
    return text.replace("\xa0", " ")


@pytest.mark.parametrize(
    ("text", "after_s"), [("", None), (" 90 ", 90.0), ("90s", 90.0), ("10m", 600.0), ("1.5H", 5400.0)]
)
def test_a_time_is_read_as_the_command_line_reads_it(text: str, after_s: float | None) -> None:
    """Seconds, minutes or hours; empty is none."""
    terms = read_terms(text, "", CLASSES)
    assert (terms.revert_after_s, terms.problems) == (after_s, ())


@pytest.mark.parametrize("text", ["soon", "0", "-5", "25h", "nan", "inf", "m"])
def test_a_bad_time_names_itself(text: str) -> None:
    """The field and what was typed are in the sentence."""
    (problem,) = read_terms(text, "", CLASSES).problems
    assert problem.startswith(f'Revert after: "{text}"')


def test_conditions_are_read_one_a_line() -> None:
    """In the form in which the server writes them."""
    terms = read_terms("", "realtime.ttft_p95_s > 2 for 1m\n\n error_ratio>0.05", CLASSES)
    assert terms.revert_if == ("realtime.ttft_p95_s > 2 for 60 s", "error_ratio > 0.05 for 30 s")
    assert terms.problems == ()


@pytest.mark.parametrize(
    ("line", "word"),
    [("slow", "'slow'"), ("ttft > 2", "no figure 'ttft'"), ("gone.error_ratio > 0.5", "no class 'gone'")],
)
def test_a_bad_condition_names_itself_and_its_place(line: str, word: str) -> None:
    """The good ones are no reason to switch."""
    (problem,) = read_terms("", f"error_ratio > 0.1\n{line}", CLASSES).problems
    assert problem.startswith("Revert if, condition 2: ")
    assert word in problem


def test_more_conditions_than_the_server_takes() -> None:
    """Said before anything is sent."""
    terms = read_terms("", "\n".join(["error_ratio > 0.1"] * 11), CLASSES)
    assert "at most 10" in terms.problems[0]


def test_a_running_trial_says_what_returns_and_when() -> None:
    """With a time to go back nobody needs to act; with conditions alone it stays."""
    assert spaced(head_words(trial())).endswith("balanced returns in 9 min, unless somebody keeps it.")
    assert "it stays after 9 min, unless a condition is met" in spaced(head_words(trial(revert_after_s=None)))


@pytest.mark.parametrize(
    ("end", "words"),
    [("kept", "was kept: fine."), ("reverted", "was taken back: fine. balanced is in force again."),
     ("overtaken", "was ended by another change: fine.")],
)  # fmt: skip
def test_an_ended_trial_says_how_and_why(end: str, words: str) -> None:
    """And what is in force where it was taken back."""
    assert head_words(trial(end=end, why="fine", left_s=None)).endswith(words)


def test_conditions_have_before_now_and_limit() -> None:
    """With the units of the figure, and for how long it has been true."""
    text = "realtime.ttft_p95_s > 2 for 30 s"
    before = ServedByClass(all=ServedFigures(), classes={"realtime": ServedFigures(ttft_p95_s=0.8)})
    conditions = [TrialCondition(text=text, reading=2.5, held_s=12), TrialCondition(text="error_ratio > 0.05 for 30 s")]
    first, second = condition_rows(trial(conditions=conditions, before=before))
    assert [spaced(one) for one in first.values()] == [
        "realtime.ttft_p95_s", "800 ms", "2.5 s", "> 2 s", "12 s of 30 s"
    ]  # fmt: skip
    assert [spaced(one) for one in second.values()] == ["error_ratio", "—", "—", "> 5 %", "not known"]


def test_a_condition_of_a_newer_server_is_shown_as_it_is() -> None:
    """A text that this version cannot read is no reason to show nothing."""
    (row,) = condition_rows(trial(conditions=[TrialCondition(text="new figure", reading=3)]))
    assert (row["Goes back if"], row["Now"], row["Limit"]) == ("new figure", "3", "new figure")


def test_figures_by_class_with_the_limit_in_its_cell() -> None:
    """All requests first; a class without figures has dashes."""
    before = ServedByClass(all=ServedFigures(tokens_per_s=200), classes={"realtime": ServedFigures(ttft_p95_s=0.8)})
    conditions = [TrialCondition(text="realtime.ttft_p95_s > 2 for 30 s")]
    every, realtime = figure_rows(trial(before=before, conditions=conditions))
    assert (every["Class"], every["Tokens/s"]) == ("all", "200 → —")
    assert spaced(realtime["TTFT p95"]) == "800 ms → — (limit 2 s)"


WELL_BEFORE = ServedByClass(all=ServedFigures(completed_ratio=0.92), classes={})
SECONDS = ServedByClass(all=ServedFigures(completed_ratio=0.8, ttft_p95_s=0.4), classes={})


def since(completed: int, ended: int) -> dict[str, EndedRequests]:
    """What has ended since the switch, in two classes."""
    half = EndedRequests(ended=ended // 2, completed=0, refused=ended // 2, timed_out=0, failed=0)
    rest = ended - ended // 2
    return {
        "realtime": half,
        "normal": EndedRequests(ended=rest, completed=completed, refused=rest - completed, timed_out=0, failed=0),
    }


def test_the_share_completed_is_of_all_since_the_switch() -> None:
    """The last seconds alone looked well while three of four had been refused."""
    found = trial(before=WELL_BEFORE, now=SECONDS, ended=since(31, 131))
    assert spaced(figure_rows(found)[0]["Completed"]) == "92 % → 23.7 % (31 of 131)"
    assert spaced(figure_rows(found)[0]["Refused"]) == "— → 76.3 % (100 of 131)"
    assert spaced(figure_rows(trial(before=WELL_BEFORE, now=SECONDS))[0]["Completed"]) == "92 % → 80 %"


def test_a_trial_that_completes_less_is_called_worse() -> None:
    """With the numbers; not by a handful of requests, nor by what is hardly less."""
    assert spaced(worse_words(trial(before=WELL_BEFORE, ended=since(31, 131)))) == (
        "Worse than before the switch: 23.7 % (31 of 131) of the requests completed since, 92 % in the minute before."
    )
    assert worse_words(trial(before=WELL_BEFORE, ended=since(2, 9))) == ""
    assert worse_words(trial(before=WELL_BEFORE, ended=since(88, 100))) == ""
    assert worse_words(trial(before=WELL_BEFORE, now=SECONDS)) == ""


def test_a_trial_has_a_condition_on_refusals() -> None:
    """Where many are refused no first token is late; a bound above what is refused now, and so none where nearly all
    are: it would hold from the start. A switch for good has none.
    """
    after = read_terms("10m", "ttft_p95_s > 2", CLASSES)
    assert with_refusals(after, 0.0).revert_if == ("ttft_p95_s > 2 for 30 s", "refused_ratio > 0.1 for 30 s")
    assert with_refusals(after, 0.5).revert_if[-1] == "refused_ratio > 0.6 for 30 s"
    assert with_refusals(after, 0.85).revert_if[-1] == "refused_ratio > 0.95 for 30 s"
    assert with_refusals(after, 0.9) == with_refusals(after, 1.0) == after
    own = read_terms("", "batch.refused_ratio > 0.5", CLASSES)
    assert with_refusals(own, 0.0) == own
    assert with_refusals(read_terms("", "", CLASSES), 0.0).revert_if == ()
