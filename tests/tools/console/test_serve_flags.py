"""Headway's flags among vLLM's: tables, and the property that vLLM's pass through unchanged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_tools.console.exits import UsageError
from headway_tools.console.serve_flags import ServeWords, has, model_of, split, value_of, with_defaults


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param([], ServeWords(), id="nothing"),
        pytest.param(["m"], ServeWords(engine=("m",)), id="model"),
        pytest.param(["m", "--preset", "latency"], ServeWords("latency", engine=("m",)), id="preset"),
        pytest.param(["--preset=latency", "m"], ServeWords("latency", engine=("m",)), id="preset with equals"),
        pytest.param(["m", "--preset", "a", "--preset", "b"], ServeWords("b", engine=("m",)), id="the last wins"),
        pytest.param(["--preset_dir", "d", "m"], ServeWords(preset_dir="d", engine=("m",)), id="underscore"),
        pytest.param(["m", "--no-warmup"], ServeWords(warmup=False, engine=("m",)), id="no warm-up"),
        pytest.param(["m", "--quick_start"], ServeWords(quick_start=True, engine=("m",)), id="quick start"),
        pytest.param(["-h"], ServeWords(show_help=True), id="short help"),
        pytest.param(["--help=all"], ServeWords(engine=("--help=all",)), id="help of vLLM"),
        pytest.param(["m", "--seed", "-5"], ServeWords(engine=("m", "--seed", "-5")), id="negative number"),
        pytest.param(["m", "-tp", "2", "-O3"], ServeWords(engine=("m", "-tp", "2", "-O3")), id="short flags"),
        pytest.param(
            ["m", "--middleware", "a", "--middleware", "b"],
            ServeWords(engine=("m", "--middleware", "a", "--middleware", "b")),
            id="repeated flag",
        ),
        pytest.param(["m", "--pre", "x"], ServeWords(engine=("m", "--pre", "x")), id="no abbreviations"),
        pytest.param(["m", "--presets", "x"], ServeWords(engine=("m", "--presets", "x")), id="longer name"),
        pytest.param(
            ["m", "--no-warmup", "--", "--preset", "x", "--"],
            ServeWords(warmup=False, engine=("m", "--preset", "x", "--")),
            id="after two dashes all is vLLM's",
        ),
        pytest.param(["m", "--x="], ServeWords(engine=("m", "--x=")), id="empty value"),
        pytest.param(["m", ""], ServeWords(engine=("m", "")), id="empty word"),
        pytest.param(
            ["m", '--compilation-config={"mode": 3}', "--kv.x", "1"],
            ServeWords(engine=("m", '--compilation-config={"mode": 3}', "--kv.x", "1")),
            id="JSON and dotted",
        ),
    ],
)
def test_headways_flags_are_taken_and_the_rest_is_passed_on(words: list[str], expected: ServeWords) -> None:
    """Only exact flags of Headway are taken, at any position."""
    assert split(words) == expected


@pytest.mark.parametrize(
    "words",
    [["--preset"], ["--preset", "--port"], ["--preset-dir"], ["--no-warmup=1"], ["--quick-start=1"]],
    ids=" ".join,
)
def test_a_flag_of_ours_with_a_wrong_value_is_refused(words: list[str]) -> None:
    """A missing value does not swallow the next flag."""
    with pytest.raises(UsageError):
        split(["m", *words])


OURS = {"--preset", "--preset-dir", "--no-warmup", "--quick-start", "--help", "-h", "--"}
_word = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["--port", "-tp", "-1", "-0.5", "--a=b", "--no-x", "--model", "-O3", "--help=all", "--pre"]),
    st.builds("--{}={}".format, st.text("abcdefgh-_", min_size=1, max_size=8), st.text(max_size=6)),
)
engine_words = st.lists(
    _word.filter(lambda word: word.partition("=")[0].replace("_", "-") not in OURS and word not in OURS), max_size=12
)
our_words = st.lists(
    st.sampled_from([("--preset", "p"), ("--preset=q",), ("--no-warmup",), ("--quick-start",), ("--preset-dir", "d")])
)


@given(engine_words, our_words, st.randoms(use_true_random=False))
def test_every_word_of_vllm_passes_unchanged_and_in_order(
    engine: list[str], ours: list[tuple[str, ...]], random: object
) -> None:
    """Wherever Headway's flags are mixed in, vLLM gets exactly its own arguments, in their order."""
    mixed: list[tuple[str, ...]] = [(word,) for word in engine]
    for group in ours:
        mixed.insert(random.randint(0, len(mixed)), group)  # type: ignore[attr-defined] # a Random
    assert split([word for group in mixed for word in group]).engine == tuple(engine)


@given(engine_words, st.lists(st.text(max_size=10)))
def test_after_two_dashes_nothing_is_ours(engine: list[str], rest: list[str]) -> None:
    """``--`` passes on an argument of vLLM that looks like one of Headway's."""
    assert split([*engine, "--", *rest]) == ServeWords(engine=(*engine, *rest))


@pytest.mark.parametrize(
    ("engine", "model"),
    [
        (["m", "--model", "n"], "m"),
        (["--port", "1", "--model", "n"], "n"),
        (["--model=n"], "n"),
        (["--port", "1"], None),
        ([], None),
    ],
)
def test_the_model_is_found_as_vllm_finds_it(engine: list[str], model: str | None) -> None:
    """The first word, or ``--model``."""
    assert model_of(engine) == model


@pytest.mark.parametrize(
    ("engine", "value"),
    [
        (["m", "--max-num-seqs", "4"], "4"),
        (["m", "--max_num_seqs=4"], "4"),
        (["m", "--max-num-seqs=4", "--max-num-seqs", "5"], "5"),
        (["m", "--max-num-seqs"], None),
        (["m", "--max-num-seqs-x", "4"], None),
        (["m", "--x=--max-num-seqs", "4"], None),
    ],
)
def test_a_flag_of_vllm_is_read_in_all_its_spellings(engine: list[str], value: str | None) -> None:
    """Dashes or underscores, a word or an equals sign, the last one counts."""
    assert value_of(engine, "--max-num-seqs") == value
    assert has(engine, "--max-num-seqs") is any(
        word.replace("_", "-").startswith("--max-num-seqs")
        for word in engine
        if not word.replace("_", "-").startswith("--max-num-seqs-")
    )


@pytest.mark.parametrize(
    ("engine", "expected"),
    [(["m", "--port", "1"], ("m", "--d", "--port", "1")), (["--model", "m"], ("--d", "--model", "m"))],
)
def test_defaults_stand_before_the_flags_of_the_user(engine: list[str], expected: tuple[str, ...]) -> None:
    """vLLM uses the last value, so even an abbreviation of the user's overrides Headway's default."""
    assert with_defaults(engine, ["--d"]) == expected
