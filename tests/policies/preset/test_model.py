"""Preset files: their settings, and the errors of invalid ones."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_presets import small_preset, terms

from headway_policies import Batching, Change, Preset, PresetError, bundled_presets, changes, load_preset, parse_preset
from headway_policies.limits.limit import LimitSettings
from headway_policies.preset import lint
from headway_policies.request import relative, resolve

BALANCED = (resources.files("headway_policies.preset") / "bundled" / "balanced.toml").read_text(encoding="utf-8")
BUNDLED = [
    *("serial", "dynamic-latency", "latency", "interactive", "balanced", "dynamic"),
    *("dynamic-throughput", "offline", "throughput"),
]
SEATS_AND_WINDOWS = {"latency": (8, 10), "balanced": (32, 50), "throughput": (64, 100)}
BATCHES = {"latency": "dynamic-latency", "balanced": "dynamic", "throughput": "dynamic-throughput"}


def test_the_bundled_presets_come_fewest_seats_first() -> None:
    """Nine ship, in this order, each under its own name."""
    presets = bundled_presets()
    assert list(presets) == BUNDLED
    assert [one.name for one in presets.values()] == BUNDLED
    seats = [one.batching.seats for one in presets.values()]
    assert seats == sorted(seats)


@pytest.mark.parametrize(("name", "seats", "window_ms"), [(one, *two) for one, two in SEATS_AND_WINDOWS.items()])
def test_the_three_presets_of_the_texts_have_exactly_their_seats_and_window(
    name: str, seats: int, window_ms: float
) -> None:
    """The batch size of latency, balanced and throughput is where their limit starts, which follows the engine and its
    memory; as whole batches of exactly that size, after that window, they run with the strategy ``dynamic``.
    """
    preset, batches = bundled_presets()[name], bundled_presets()[BATCHES[name]]
    assert (preset.batching.strategy, preset.batching.seats) == ("continuous", seats)
    assert (preset.batching.window_ms, preset.limit.memory_aware, preset.limit.max_seats) == (window_ms, True, None)
    assert preset.limit.policy == ("knee" if name == "throughput" else "model")
    assert (batches.batching.strategy, batches.batching.seats) == ("dynamic", seats)
    assert (batches.batching.window_ms, batches.limit.policy, batches.limit.moves) == (window_ms, "fixed", False)


def test_offline_work_runs_in_full_batches_and_interactive_work_under_an_adaptive_limit() -> None:
    """Offline: static, large, the tail flushed, for batch work. Interactive: continuous, adaptive, with objectives."""
    offline, interactive = (bundled_presets()[name] for name in ("offline", "interactive"))
    assert (offline.batching.strategy, offline.default_class) == ("static", "batch")
    assert offline.batching.flush_after_s is not None
    assert interactive.batching.strategy == "continuous"
    assert interactive.limit.policy != "fixed"
    assert interactive.classes["realtime"].ttft_slo_s == "6x 0.3..5"


def test_dynamic_has_the_three_numbers_of_the_texts_and_serial_runs_one_at_a_time() -> None:
    """32 requests, 50 ms and 8192 tokens, whichever comes first; serial is a single seat without any window."""
    dynamic, serial = (bundled_presets()[name].batching for name in ("dynamic", "serial"))
    assert (dynamic.strategy, dynamic.seats, dynamic.window_ms, dynamic.max_total_tokens) == ("dynamic", 32, 50, 8192)
    assert (serial.strategy, serial.seats, serial.window_ms) == ("continuous", 1, 0)


@pytest.mark.parametrize("preset", bundled_presets().values(), ids=BUNDLED)
def test_a_bundled_preset_states_the_objectives_of_each_class(preset: Preset) -> None:
    """On any engine: the more urgent a class, the sooner its first token; and no later than its time-outs would end it,
    for a usual prompt.
    """
    stated = [preset.classes[name].ttft_slo_s for name in preset.by_urgency()]
    for unloaded_s in (0.001, 0.02, 0.5, 3.0, 60.0):
        slos_s = [resolve(one, unloaded_s) for one in stated if one is not None]
        assert len(slos_s) == len(stated)
        assert slos_s == sorted(slos_s)
    for one in preset.classes.values():
        assert one.ttft_slo_s is not None
        slo_s = relative(one.ttft_slo_s).most if isinstance(one.ttft_slo_s, str) else one.ttft_slo_s
        assert slo_s <= min(one.first_token_timeout_s or 0.0, one.total_timeout_s or 0.0)


def test_the_limit_keeps_the_shortest_objective_unless_it_states_its_own() -> None:
    """Of 50 and 100 ms the limit keeps 50; where it states 75, it keeps that; without any objective, the default."""
    classes = "\n".join(
        f"[classes.{name}]\npriority = {rank}\nmax_waiting = 1\n{slo}"
        for rank, (name, slo) in enumerate({"a": "inter_token_slo_ms = 100", "b": "inter_token_slo_ms = 50"}.items())
    )
    head = 'name = "mine"\ndefault_class = "a"\n{limit}\nqueue = {{max_waiting = 2}}\n'
    head += 'batching = {{strategy = "continuous", seats = 4, window_ms = 0}}\n'
    for limit, slo_ms in (("", 50), ("limit = {inter_token_slo_ms = 75}", 75), ('limit = {policy = "sla"}', 50)):
        assert parse_preset(head.format(limit=limit) + classes, "mine").limit.inter_token_slo_ms == slo_ms
    bare = classes.replace("inter_token_slo_ms", "# inter_token_slo_ms")
    assert parse_preset(head.format(limit="") + bare, "mine").limit.inter_token_slo_ms == 75


@pytest.mark.parametrize(
    ("limit", "slo_ms"),
    [(None, 50.0), (LimitSettings(policy="sla"), 50.0), (LimitSettings(inter_token_slo_ms=75.0), 75.0)],
)
def test_the_limit_of_a_preset_made_of_objects_keeps_it_too(limit: LimitSettings | None, slo_ms: float) -> None:
    """A program makes its preset without a file."""
    classes = {"a": terms(1, inter_token_slo_ms=100.0), "b": terms(2, inter_token_slo_ms=50.0), "c": terms(3)}
    made = small_preset(classes=classes, limit=limit)
    assert (made.limit.inter_token_slo_ms, made.limit.policy) == (slo_ms, "fixed" if limit is None else limit.policy)


def test_no_bundled_preset_has_a_warning() -> None:
    """Bundled presets follow their own advice."""
    assert {name: lint(one) for name, one in bundled_presets().items()} == {name: [] for name in BUNDLED}


@pytest.mark.parametrize("preset", bundled_presets().values(), ids=BUNDLED)
def test_a_bundled_preset_leaves_each_class_its_own_room(preset: Preset) -> None:
    """The total bound holds every class at its own bound, so a flood of batch work takes no realtime place."""
    assert sum(one.max_waiting for one in preset.classes.values()) <= preset.queue.max_waiting
    assert preset.by_urgency() == ["realtime", "normal", "batch"]
    assert preset.queue.max_waiting == 10_000


BAD_FILES: dict[str, tuple[str, str, list[str]]] = {
    "a number as text": ("seats = 32", 'seats = "8"', ["batching.seats", "integer"]),
    "a truth value as a number": ("seats = 32", "seats = true", ["batching.seats", "integer"]),
    "a fraction of a seat": ("seats = 32", "seats = 32.5", ["batching.seats", "integer"]),
    "no seat": ("seats = 32", "seats = 0", ["batching.seats", "greater than or equal to 1"]),
    "too many seats": ("seats = 32", "seats = 1_000_000", ["batching.seats", "less than or equal to 65536"]),
    "a missing key": ("seats = 32\n", "", ["batching.seats", "missing"]),
    "an unknown key": (
        "seats = 32",
        "seats = 32\nchairs = 8",
        ["batching.chairs", "seats, strategy, urgent_window_ms, window, window_ms"],
    ),
    "an unknown section": ("[queue]", "[queues]", ["queues", "unknown key", "batching, classes", "queue: missing"]),
    "an unknown key of a class": (
        "priority = 3",
        "priority = 3\nweight = 2",
        [
            "classes.realtime.weight",
            "max_waiting, max_waiting_bytes",
            "service_tiers, share, sheddable, stall_timeout_s",
        ],
    ),
    "an unknown strategy": ('"continuous"', '"magic"', ["batching.strategy", "'continuous'"]),
    "a misspelt strategy": ('"continuous"', '"continous"', ["batching.strategy", "did you mean continuous?"]),
    "a misspelt key": ("seats = 32", "seets = 32", ["batching.seets: unknown key", "did you mean seats?"]),
    "no number": ("window_ms = 50", "window_ms = nan", ["batching.window_ms", "60000"]),
    "no end": ("queue_timeout_s = 5", "queue_timeout_s = inf", ["classes.realtime.queue_timeout_s", "86400"]),
    "a negative time": ("queue_timeout_s = 5", "queue_timeout_s = -1", ["queue_timeout_s", "greater than 0"]),
    "text for a list": ('["flex"]', '"flex"', ["classes.batch.service_tiers", "list"]),
    "numbers for names": ('["flex"]', "[1]", ["classes.batch.service_tiers.0", "string"]),
    "a tier of two classes": ('["flex"]', '["auto"]', ["classes", "one class only"]),
    "one priority for two classes": ("priority = 1\n", "priority = 2\n", ["classes", "priority of its own"]),
    "a default that is no class": (
        'default_class = "normal"',
        'default_class = "gold"',
        ["default_class", '"gold"', "batch, normal, realtime"],
    ),
    "a misspelt default": ('default_class = "normal"', 'default_class = "normla"', ["did you mean normal?"]),
    "a name with capitals": ('name = "balanced"', 'name = "Balanced"', ["name", "[a-z0-9]"]),
    "a class name that no header can carry": ("[classes.batch]", '[classes."b\\r\\nx"]', ["classes", "[a-z0-9]"]),
    "a key of two lines": ("seats = 32", '"a\\nb" = 1\nseats = 32', ["batching.a b", "unknown key"]),
    "a missing section": ("[queue]\nmax_waiting = 10000\n", "", ["queue", "missing"]),
    "shares of more than all": ("share = 0.6", "share = 0.8", ["classes", "the shares sum to 1.2, more than 1"]),
    "a reserve of all seats": ("share = 0.6", "share = 0.6\nreserved_seats = 32", ["32 reserved_seats of 32", "none"]),
    "a preferred size beyond the seats": (
        "seats = 32",
        "seats = 32\npreferred_batch_sizes = [8, 33]",
        ["batching.preferred_batch_sizes", "33 is not between 1 and the 32 seats"],
    ),
    "an adaptive limit whose rails leave the seats out": (
        'policy = "model"',
        'policy = "model"\nmax_seats = 16',
        ["batching.seats: 32 is not between limit.min_seats and limit.max_seats"],
    ),
    "a misspelt policy": (
        'between = "weighted"',
        'between = "wieghted"',
        ["ordering.between: must be strict, ageing, weighted or package.module:Class; did you mean weighted?"],
    ),
    "an unknown policy": (
        'policy = "model"',
        'policy = "adaptiv"',
        ["limit.policy: must be fixed, aimd, sla, model, knee or package.module:Class", '"adaptiv"'],
    ),
    "a policy that is nowhere": (
        'inside = "fair"',
        'inside = "no_such_module:Discipline"',
        ["ordering.inside: no_such_module cannot be imported: No module named 'no_such_module'"],
    ),
    "a policy that is no class": (
        'policy = "model"',
        'policy = "headway_policies.preset.model:changes"',
        ["limit.policy: headway_policies.preset.model:changes is not a class but function"],
    ),
    "two things wrong": (
        'between = "weighted"\ninside = "fair"',
        'between = "no_such_module:Order"\ninside = "no_such_module:Discipline"',
        ["ordering.between: no_such_module", "ordering.inside: no_such_module"],
    ),
    "no TOML": ("seats = 32", "seats 8", ["not valid TOML", "line"]),
    "a doubled key": ("seats = 32", "seats = 32\nseats = 9", ["not valid TOML"]),
}


@pytest.mark.parametrize(("good", "bad", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_refused_in_one_line_that_names_file_key_and_what_is_allowed(
    good: str, bad: str, message: list[str], tmp_path: Path
) -> None:
    """The author reads one line: which file, which key, what may stand there."""
    assert good in BALANCED
    path = tmp_path / "mine.toml"
    path.write_text(BALANCED.replace(good, bad, 1), encoding="utf-8")
    with pytest.raises(PresetError) as caught:
        load_preset(path)
    line = str(caught.value)
    assert line.startswith(f"{path}: ")
    assert "\n" not in line
    for word in message:
        assert word in line


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: None, "cannot be read: No such file"),
        (lambda path: path.mkdir(), "cannot be read: Is a directory"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "cannot be read: not UTF-8 text"),
        (
            lambda path: path.write_text('extends = "a\\u0000b.toml"'),
            "a\\x00b.toml': cannot be read: not the name",
        ),
        (lambda path: path.write_text('description = "\\u001b[31m"'), "description: has control characters"),
    ],
    ids=["absent", "a folder", "binary", "nul", "escapes"],
)
def test_a_file_that_cannot_be_read_is_refused_in_one_line(make: object, why: str, tmp_path: Path) -> None:
    """A missing, wrong or binary file gives the same kind of error as a wrong setting."""
    path = tmp_path / "mine.toml"
    assert callable(make)
    make(path)
    with pytest.raises(PresetError, match=re.escape(why)) as caught:
        load_preset(path)
    assert str(caught.value).startswith(f"{path}")


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    """As some editors leave it."""
    path = tmp_path / "mine.toml"
    path.write_bytes(b'\xef\xbb\xbfname = "mine"\nextends = "balanced"\n')
    assert load_preset(path).name == "mine"


def test_settings_that_are_not_set_are_left_out_and_lists_stay_lists() -> None:
    """A time-out that does not exist is no setting; preferred sizes are numbers."""
    batching = Batching(strategy="dynamic", seats=8, window_ms=50, preferred_batch_sizes=(4, 8))
    settings = small_preset().model_copy(update={"batching": batching}).settings()
    assert settings["batching.preferred_batch_sizes"] == [4, 8]
    assert "batching.flush_after_s" not in settings
    assert "classes.normal.stall_timeout_s" not in settings
    assert None not in settings.values()


@pytest.mark.parametrize(
    ("limit", "seats"),
    [
        (LimitSettings(), 8),
        (LimitSettings(policy="aimd", max_seats=24), 24),
        (LimitSettings(policy="aimd"), None),
        (LimitSettings(max_seats=24), 8),
        (LimitSettings(memory_aware=True), 8),
        (LimitSettings(policy="aimd", shadow=True), 8),
    ],
    ids=["fixed", "adaptive with a top", "adaptive without", "a top that nothing uses", "memory alone", "only shown"],
)
def test_the_most_seats_are_those_an_adaptive_limit_may_come_to(limit: LimitSettings, seats: int | None) -> None:
    """A fixed limit moves no further up than its number; an adaptive one without a top follows the engine."""
    assert small_preset(seats=8).model_copy(update={"limit": limit}).max_seats() == seats


def test_a_policy_of_your_own_is_named_by_its_import_path() -> None:
    """Any class that can be imported is accepted, and listed as not one of Headway's own."""
    text = BALANCED.replace('inside = "fair"', 'inside = "headway_policies.queueing.disciplines:Fifo"')
    assert parse_preset(text, "mine.toml").named_policies() == {
        "ordering.inside": "headway_policies.queueing.disciplines:Fifo"
    }
    assert parse_preset(BALANCED, "mine.toml").named_policies() == {}


@given(st.text(max_size=200))
def test_no_text_makes_the_reader_fail_otherwise(text: str) -> None:
    """Whatever the file says, the answer is a preset or a PresetError of one line."""
    message = ""
    try:
        message = f"mine.toml: {parse_preset(text, 'mine.toml').name}"
    except PresetError as error:
        message = str(error)
    assert message.startswith("mine.toml: ")
    assert len(message.splitlines()) == 1


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=4))
def test_a_seat_count_is_a_whole_number_in_range_or_refused(value: object) -> None:
    """Nothing is turned into a number that is not one."""
    table = small_preset().model_dump()
    table["batching"]["seats"] = value
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65_536:
        assert Preset.model_validate(table).batching.seats == value
    else:
        with pytest.raises(ValueError, match=r"batching\.seats"):
            Preset.model_validate(table)


@pytest.mark.parametrize("preset", bundled_presets().values(), ids=BUNDLED)
def test_settings_are_flat_and_in_the_order_of_the_file(preset: Preset) -> None:
    """Every setting stands under its dotted key, name and description apart."""
    settings = preset.settings()
    assert list(settings)[:4] == ["default_class", "batching.strategy", "batching.seats", "batching.window_ms"]
    assert settings["classes.realtime.priority"] == 3
    assert settings["classes.batch.service_tiers"] == ["flex"]
    assert not {"name", "description"} & set(settings)
    assert not any(isinstance(value, dict) for value in settings.values())


def test_changes_list_what_differs_and_nothing_else() -> None:
    """From latency to throughput exactly the seats, the window, the limit's policy, the objectives, the time-outs
    before a first token and the queue age change.
    """
    presets = bundled_presets()
    assert changes(presets["latency"], presets["throughput"]) == [
        Change("batching.seats", 8, 64),
        Change("batching.window_ms", 10.0, 100.0),
        Change("limit.policy", "model", "knee"),
        Change("limit.inter_token_slo_ms", "2.5x 5..500", "10x"),
        Change("classes.realtime.queue_timeout_s", 5.0, 15.0),
        Change("classes.realtime.first_token_timeout_s", 15.0, 30.0),
        Change("classes.realtime.ttft_slo_s", "5x 0.2..5", "8x 2..15"),
        Change("classes.realtime.inter_token_slo_ms", "2.5x 5..500", "10x"),
        Change("classes.normal.queue_timeout_s", 30.0, 60.0),
        Change("classes.normal.first_token_timeout_s", 60.0, 120.0),
        Change("classes.normal.ttft_slo_s", "8x 0.3..10", "9x 10..60"),
        Change("classes.normal.inter_token_slo_ms", "2.5x 5..500", "20x"),
        Change("classes.batch.ttft_slo_s", 60.0, 120.0),
        Change("fallback.queue_age_s", 2.0, 10.0),
    ]
    assert changes(presets["latency"], presets["latency"]) == []


def test_changes_show_a_setting_that_one_side_does_not_have() -> None:
    """A class that appears or goes away shows as None on the other side."""
    one = small_preset(classes={"only": terms(1)})
    two = small_preset(classes={"only": terms(1), "more": terms(2)})
    added = changes(one, two)
    assert {change.setting.rpartition(".")[0] for change in added} == {"classes.more"}
    assert all(change.before is None and change.after is not None for change in added)
    assert changes(two, one) == [Change(change.setting, change.after, None) for change in added]


@pytest.mark.parametrize(
    ("tier", "name"),
    [
        ("priority", "realtime"),
        ("fast", "realtime"),
        ("auto", "normal"),
        ("default", "normal"),
        ("flex", "batch"),
        ("platinum", None),
        ("", None),
    ],
)
def test_a_service_tier_stands_for_a_class_or_for_none(tier: str, name: str | None) -> None:
    """OpenAI's and Anthropic's words lead to our classes; an unknown word to no class."""
    assert bundled_presets()["balanced"].class_for_tier(tier) == name


@pytest.mark.parametrize(
    ("priority", "name"),
    [(99, "realtime"), (3, "realtime"), (2, "normal"), (1, "batch"), (0, "batch"), (-5, "batch")],
)
def test_a_larger_number_is_more_urgent(priority: int, name: str) -> None:
    """A number falls into the highest class not above it; below all of them, into the lowest."""
    assert bundled_presets()["balanced"].class_for_priority(priority) == name
