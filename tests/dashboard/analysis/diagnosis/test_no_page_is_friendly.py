"""Whatever the figures are: no sentence of a page is friendly while something goes wrong, and none has holes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from headline_readings import CLASSES, INF, JUST_ABOVE, NAN, TOLD, WELL, is_favourable, reading, says_well
from hypothesis import assume, given
from hypothesis import strategies as st

from headway.api.schema import EngineStatus, FallbackState, WarmupStatus
from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.diagnosis.headline import headline_of
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.model import Labels, Point
from headway_dashboard.analysis.server import descriptions, newest_values
from headway_dashboard.analysis.server.condition import Condition, State
from headway_dashboard.analysis.server.objectives import ClassObjectives
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.sources import Health, SourceReading
from headway_policies.diagnosis import Severity
from headway_policies.limits import WHYS

POINTS = st.none() | st.floats(0, 100) | st.just(0.0)
WILD = POINTS | st.sampled_from([NAN, INF])
SHARES = st.none() | st.floats(0, 0.02) | st.floats(0, 1) | st.sampled_from([0.0, 0.01, JUST_ABOVE])
BOUNDS = st.none() | st.floats(0.1, 100) | st.just(INF)
CAUSE = st.sampled_from([("queue_full", ""), ("engine_lost", ""), ("", "failed"), ("", "rejected_invalid"), ("x", "")])
STATES = ("up", "silent", "restarting", "lost")
FIGURES = (*panels.FACTS, *panels.HEAD, panels.TOKENS)
BY_CLASS = (*panels.CLASS_TABLE, *panels.FACTS_BY_CLASS)


@st.composite
def readings(draw: st.DrawFn, points: st.SearchStrategy[Point] = POINTS) -> SourceReading:
    """A server that does well, but for a few of its figures and the health of the source: so that each rule is met."""
    answers: dict[Expression, Point | Mapping[Labels, Point]] = dict(WELL)
    for one in draw(st.lists(st.sampled_from([one for one in FIGURES if not one.by]), max_size=3)):
        answers[one] = draw(SHARES if one == panels.ERROR_SHARE else points)
    answers |= draw(by_class(points))
    answers[panels.ERRORS_BY_CAUSE] = draw(st.dictionaries(CAUSE, points, max_size=3))
    answers[panels.ENGINE_STATE] = {(draw(st.sampled_from((*["up"] * 6, *STATES))),): 1}
    last_ok_s = draw(st.sampled_from([*[1002.0] * 6, 900.0, None]))
    trouble = draw(st.sampled_from([*[None] * 6, "refused", "silent"]))
    health = Health(last_ok_s, draw(st.integers(0, 3)), trouble, "-", 990.0 if trouble else None)
    return replace(reading(answers), health=health)


@st.composite
def by_class(draw: st.DrawFn, points: st.SearchStrategy[Point]) -> dict[Expression, dict[Labels, Point]]:
    """The lines of three classes, of one, or of none: as of a server that does well, but for a few points."""
    names = draw(st.sampled_from([CLASSES, ("normal",), ("normal",), ()]))
    found: dict[Expression, dict[Labels, Point]] = {}
    for one in BY_CLASS:
        well = WELL.get(one)
        found[one] = {(name,): well["normal",] if isinstance(well, Mapping) else 0.0 for name in names}
    for one, name in draw(st.lists(st.tuples(st.sampled_from(BY_CLASS), st.sampled_from(CLASSES)), max_size=3)):
        if name in names:
            found[one][name,] = draw(SHARES if one == panels.ERROR_SHARE_BY_CLASS else points)
    return found


objectives = st.builds(ClassObjectives, BOUNDS, BOUNDS, BOUNDS) | st.just(ClassObjectives(2.0, 60.0, 0.2))
ladders = st.builds(
    FallbackState, rung=st.sampled_from(["normal", "", "cap", "pause"]), ordered=st.none() | st.just("cap")
)
statuses = st.just(TOLD) | st.builds(
    Status,
    known=st.booleans(),
    reasons=st.sampled_from([(), (), ("draining",)]),
    admission=st.sampled_from(["open", "open", "paused", ""]),
    recycling=st.booleans(),
    limit_reason=st.sampled_from(["", *WHYS]),
    strategy=st.sampled_from(["continuous", "static", "dynamic", ""]),
    adaptive=st.booleans(),
    engine=st.builds(EngineStatus, state=st.sampled_from(["", "up", "up", *STATES])),
    warmup=st.builds(WarmupStatus, state=st.sampled_from(["done", "", "running"])),
    ladder=ladders,
    objectives=st.fixed_dictionaries(dict.fromkeys(CLASSES, objectives)) | st.just({}),
)


def said(found: SourceReading, status: Status, state: Condition) -> str:
    """Every sentence that the functions behind the pages make of the newest numbers."""
    diagnosed = headline_of(found, state.state, status)
    remedy = diagnosed.remedy
    notices = descriptions.notices_of(found, status, state)
    return "\n".join(
        (
            state.sentence,
            diagnosed.sentence,
            "" if remedy is None else f"{remedy.action} {remedy.cost} {remedy.command}",
            *(f"{one.title} {one.text} {one.step}" for one in notices),
            descriptions.ladder_words(status.ladder, descriptions.rung(found)),
            descriptions.limit_words(found, status),
            descriptions.prediction_words(found),
            descriptions.warmup_words(status.warmup),
            descriptions.pause_words(status),
            *(f"{tile.label} {tile.value} {tile.note}" for tile in descriptions.server_tiles(found, status, state)),
        )
    )


def goes_wrong(found: SourceReading, status: Status) -> bool:
    """Errors above 1 %, in all or in a class, of which none is a client's mistake, or first tokens after an objective:
    written anew, not taken from the diagnosis.
    """
    names = newest_values.classes_of(found)
    mistakes = found[panels.ERRORS_BY_CAUSE].latest("", "rejected_invalid")
    shares = (found[panels.ERROR_SHARE].latest(), *(found[panels.ERROR_SHARE_BY_CLASS].latest(one) for one in names))
    if not mistakes and any(share is not None and share > 0.01 for share in shares):
        return True
    for name in names:
        ttft_s, stated = found[panels.TTFT_P95_BY_CLASS].latest(name), status.objectives.get(name)
        bounds = () if stated is None else (stated.ttft_slo_s, stated.first_token_timeout_s)
        if ttft_s is not None and any(bound is not None and ttft_s > bound for bound in bounds):
            return True
    return False


@given(readings(), statuses)
def test_no_page_is_friendly_while_something_goes_wrong(found: SourceReading, status: Status) -> None:
    """Headline, banner, notices, ladder, limit, warm-up and tiles together, in every state of the server."""
    state = newest_values.condition_of(found, 1002.0)
    stopped = state.current and (found[panels.READY].latest() == 0 or bool(status.reasons))
    assume(goes_wrong(found, status) or stopped or not state.current)
    assert headline_of(found, state.state, status).severity is not Severity.OK
    assert not says_well(said(found, status, state))


@given(readings(), statuses)
def test_a_busy_server_is_praised_only_where_all_is_known(found: SourceReading, status: Status) -> None:
    """The error share, the KV cache, the queue, and the objectives of each class that has first tokens."""
    state = newest_values.condition_of(found, 1002.0)
    busy = any(found[panels.ARRIVALS_BY_CLASS].latest(name) != 0 for name in newest_values.classes_of(found))
    known = (panels.ERROR_SHARE, panels.KV_USE, panels.QUEUED, panels.LIMIT)
    lacks = any(found[one].latest() is None for one in known) or not status.objectives
    if busy and lacks:
        assert not is_favourable(headline_of(found, state.state, status))


@given(readings(WILD), statuses, st.sampled_from(State))
def test_a_headline_has_no_holes(found: SourceReading, status: Status, state: State) -> None:
    """Whatever is missing or no number, there are sentences, and they never say None, nan or inf."""
    one = headline_of(found, state, status)
    remedy = "" if one.remedy is None else f"{one.remedy.action} {one.remedy.cost} {one.remedy.command}"
    assert one.sentence.endswith(".")
    assert not re.search(r"\b(None|nan|inf)\b", f"{one.sentence} {remedy}")


@given(readings(), statuses)
def test_no_page_has_holes(found: SourceReading, status: Status) -> None:
    """Every sentence behind the pages: what was not measured is a dash or is left out."""
    text = said(found, status, newest_values.condition_of(found, 1002.0))
    assert not re.search(r"\b(None|nan|inf)\b", text)
