"""A trial of a preset as text: how it stands, its conditions, and the figures of each class before and now."""

from __future__ import annotations

from headway.api.schema import EndedRequests, ServedByClass, ServedFigures, Trial
from headway_dashboard.analysis.units import MISSING, compact, duration, written
from headway_policies.trial import ALL, Condition, ConditionError

_ALL_WORD = "all"
#: The figures that every trial shows of each class; a condition adds its own.
FIGURES = {
    "ttft_p95_s": "TTFT p95",
    "inter_token_p95_s": "Between tokens p95",
    "completed_ratio": "Completed",
    "refused_ratio": "Refused",
    "error_ratio": "Errors",
    "tokens_per_s": "Tokens/s",
}
#: Of these the requests since the switch are counted; the others are of the last seconds.
_COUNTED = {"completed_ratio": "completed", "refused_ratio": "refused", "error_ratio": "failed"}
#: A trial is called worse when so much less is completed, of at least so many requests.
_WORSE_RATIO, _LEAST_ENDED = 0.05, 10
_ENDS = {
    "kept": "was kept",
    "reverted": "was taken back",
    "overtaken": "was ended by another change",
}


def running(trial: Trial | None) -> bool:
    """Whether a trial goes on."""
    return trial is not None and trial.end is None


def head_words(trial: Trial) -> str:
    """The state of a trial, or its end and the reason of that."""
    named = f"{trial.name}, revision {trial.revision},"
    if trial.end is not None:
        back = f" {trial.back_to} is in force again." if trial.end == "reverted" else ""
        return f"{named} {_ENDS.get(trial.end, trial.end)}: {trial.why or 'no reason given'}.{back}"
    left = duration(trial.left_s or 0.0)
    if trial.revert_after_s is None:
        return f"{named} is on trial: it stays after {left}, unless a condition is met; then {trial.back_to} returns."
    return f"{named} is on trial: {trial.back_to} returns in {left}, unless somebody keeps it."


def worse_words(trial: Trial) -> str:
    """The share of the requests that the trial completes, where it is less than before the switch; else empty."""
    before, since = _of(trial.before, ALL, "completed_ratio"), _since(trial, ALL)
    if before is None or since is None or since.ended < _LEAST_ENDED:
        return ""
    if since.completed / since.ended >= before - _WORSE_RATIO:
        return ""
    return (
        f"Worse than before the switch: {_counted(since, 'completed_ratio')} of the requests completed since, "
        f"{written(before, 'ratio')} in the minute before."
    )


def _since(trial: Trial, name: str) -> EndedRequests | None:
    """The requests of a class that have ended since the switch; None from a server that does not count them."""
    if name != ALL or not trial.ended:
        return trial.ended.get(name)
    counts = [own.model_dump() for own in trial.ended.values()]
    return EndedRequests(**{field: sum(own[field] for own in counts) for field in counts[0]})


def _counted(since: EndedRequests, figure: str) -> str:
    """A share with its numbers: "24 % (31 of 131)"."""
    if not since.ended:
        return MISSING
    number = getattr(since, _COUNTED[figure])
    return f"{written(number / since.ended, 'ratio')} ({compact(number)} of {compact(since.ended)})"


def condition_rows(trial: Trial) -> list[dict[str, str]]:
    """Each condition: its figure before the switch and now, its limit, and for how long it has been true."""
    rows = []
    for condition in trial.conditions:
        read = _read(condition.text)
        before = MISSING if read is None else figure_text(read.figure, _of(trial.before, read.class_name, read.figure))
        now = compact(condition.reading) if read is None and condition.reading is not None else MISSING
        limit = (
            condition.text if read is None else f"{'>' if read.above else '<'} {figure_text(read.figure, read.value)}"
        )
        held = (
            f"{duration(condition.held_s)} of {duration(read.for_s)}"
            if read is not None
            else duration(condition.held_s)
        )
        rows.append(
            {
                "Goes back if": condition.text if read is None else read.name,
                "Before": before,
                "Now": now if read is None else figure_text(read.figure, condition.reading),
                "Limit": limit,
                "True for": held if condition.held_s else "not true" if condition.reading is not None else "not known",
            }
        )
    return rows


def figure_rows(trial: Trial) -> list[dict[str, str]]:
    """The figures of each class before the switch and now, with the limit where a condition sets one."""
    limits = {(read.class_name, read.figure): read for condition in trial.conditions if (read := _read(condition.text))}
    rows = []
    for name in (ALL, *_classes(trial)):
        row = {"Class": name or _ALL_WORD}
        for figure, words in FIGURES.items():
            before, now = (figure_text(figure, _of(served, name, figure)) for served in (trial.before, trial.now))
            since = _since(trial, name) if figure in _COUNTED else None
            text = f"{before} → {now if since is None else _counted(since, figure)}"
            limit = limits.get((name, figure))
            row[words] = text if limit is None else f"{text} (limit {figure_text(figure, limit.value)})"
        rows.append(row)
    return rows


def figure_text(figure: str, value: float | None) -> str:
    """A figure with the unit that its name says."""
    if value is None:
        return MISSING
    if figure.endswith("_per_s"):
        return compact(value)
    return written(value, "ratio" if figure.endswith("_ratio") else "seconds")


def _read(text: str) -> Condition | None:
    """A condition of the server; None where this version cannot read it."""
    try:
        return Condition.parse(text)
    except ConditionError:
        return None


def _classes(trial: Trial) -> list[str]:
    known = [served for served in (trial.before, trial.now) if served is not None]
    return sorted({name for served in known for name in served.classes})


def _of(served: ServedByClass | None, name: str, figure: str) -> float | None:
    if served is None:
        return None
    own: ServedFigures | None = served.all if name == ALL else served.classes.get(name)
    found: float | None = getattr(own, figure, None)
    return found
