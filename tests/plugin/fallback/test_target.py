"""The target of diverted requests: another model or a fixed reply, never both; a mistake is one clear line."""

from __future__ import annotations

import pytest

from headway.api_server.settings import Settings
from headway.errors import HeadwayError
from headway.fallback import FallbackClient, FixedReply, check_late_classes, target_from_environment

MODEL = {"HEADWAY_FALLBACK_URL": "http://127.0.0.1:8001/v1", "HEADWAY_FALLBACK_MODEL": "small"}


def test_it_is_what_the_environment_names() -> None:
    """Nothing by default; a text is kept as it stands, up to its bound."""
    assert target_from_environment({}) is None
    model = target_from_environment(MODEL)
    assert (type(model), model and model.model) == (FallbackClient, "small")
    for text in ("We are busy.", " Zu viel los \u2013\n\u00ab\U0001f422\u00bb ", "x" * 4096):
        reply = target_from_environment({"HEADWAY_FALLBACK_REPLY": text})
        assert isinstance(reply, FixedReply)
        assert reply.text == text


def test_the_classes_whose_time_outs_it_answers_are_named_beside_it() -> None:
    """None unless they are; they mean nothing without a reply."""
    reply, late = {"HEADWAY_FALLBACK_REPLY": "We are busy."}, {"HEADWAY_FALLBACK_REPLY_LATE": "batch, normal"}
    for environment, expected in ((reply, set()), (reply | late, {"batch", "normal"})):
        target = target_from_environment(environment)
        assert isinstance(target, FixedReply)
        assert target.late_classes == expected
    with pytest.raises(
        HeadwayError, match=r"^HEADWAY_FALLBACK_REPLY_LATE: has no effect without HEADWAY_FALLBACK_REPLY"
    ):
        target_from_environment(late)


def test_a_class_that_no_preset_has_is_named_with_the_closest_one() -> None:
    """A misspelt one would never get the reply; all that are known are listed."""
    known = ["realtime", "normal", "batch"]
    check_late_classes({}, known)
    check_late_classes({"HEADWAY_FALLBACK_REPLY_LATE": "batch, normal"}, known)
    with pytest.raises(HeadwayError) as caught:
        check_late_classes({"HEADWAY_FALLBACK_REPLY_LATE": "batch, nromal"}, known)
    assert str(caught.value) == (
        "HEADWAY_FALLBACK_REPLY_LATE: there is no class 'nromal'; the classes are: realtime, normal, batch; "
        "did you mean normal?"
    )


def test_a_server_does_not_start_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever preset it starts with."""
    monkeypatch.setenv("HEADWAY_FALLBACK_REPLY", "We are busy.")
    monkeypatch.setenv("HEADWAY_FALLBACK_REPLY_LATE", "gold")
    with pytest.raises(HeadwayError, match=r"^HEADWAY_FALLBACK_REPLY_LATE: there is no class 'gold'"):
        Settings.from_environment()


@pytest.mark.parametrize(
    ("text", "more", "expected"),
    [
        ("", {}, "a text of 1 to 4096 characters, in UTF-8, is needed"),
        (" \n", {}, "a text of 1 to 4096 characters, in UTF-8, is needed"),
        ("x" * 4097, {}, "a text of 1 to 4096 characters, in UTF-8, is needed"),
        ("caf\udce9", {}, "a text of 1 to 4096 characters, in UTF-8, is needed"),
        ("We are busy.", MODEL, "has no effect beside HEADWAY_FALLBACK_URL; unset one of them"),
    ],
    ids=["empty", "spaces", "too long", "Latin-1", "beside another model"],
)
def test_a_mistake_is_one_line_that_names_the_variable(text: str, more: dict[str, str], expected: str) -> None:
    """Before anything is started."""
    with pytest.raises(HeadwayError, match=f"^HEADWAY_FALLBACK_REPLY: {expected}") as caught:
        target_from_environment({"HEADWAY_FALLBACK_REPLY": text} | more)
    assert "\n" not in str(caught.value)
