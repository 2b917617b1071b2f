"""Settings of the other model: read from the environment; a mistake is one clear line without a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.errors import HeadwayError
from headway.fallback.settings import FallbackSettings

GOOD = {"HEADWAY_FALLBACK_URL": "http://127.0.0.1:8001/v1/", "HEADWAY_FALLBACK_MODEL": "small"}


def test_without_a_url_there_is_no_other_model() -> None:
    """The usual case."""
    assert FallbackSettings.from_environment({}) is None


def test_what_is_said_is_read(tmp_path: Path) -> None:
    """A slash at the end, a key in a file with a line break, and a time-out; the key shows in no repr."""
    path = tmp_path / "key"
    path.write_text("sk-1\n")
    more = {"HEADWAY_FALLBACK_API_KEY_FILE": str(path), "HEADWAY_FALLBACK_TIMEOUT_S": "2.5"}
    settings = FallbackSettings.from_environment(GOOD | more)
    assert settings == FallbackSettings("http://127.0.0.1:8001/v1", "small", "sk-1", 2.5)
    assert "sk-1" not in repr(settings)
    assert FallbackSettings.from_environment(GOOD) == FallbackSettings("http://127.0.0.1:8001/v1", "small", None, 60.0)


BAD: dict[str, tuple[dict[str, str], str]] = {
    "not a URL": ({"HEADWAY_FALLBACK_URL": "localhost"}, "HEADWAY_FALLBACK_URL: the base"),
    "another scheme": ({"HEADWAY_FALLBACK_URL": "file:///etc/passwd"}, "HEADWAY_FALLBACK_URL: the base"),
    "a port too large": ({"HEADWAY_FALLBACK_URL": "http://h:99999"}, "HEADWAY_FALLBACK_URL: the base"),
    "a line break": ({"HEADWAY_FALLBACK_URL": "http://h/v1\r\nx: y"}, "HEADWAY_FALLBACK_URL: the base"),
    "a password": ({"HEADWAY_FALLBACK_URL": "http://u:hush@h/v1"}, "HEADWAY_FALLBACK_URL: no user"),
    "a query": ({"HEADWAY_FALLBACK_URL": "http://h/v1?key=hush"}, "HEADWAY_FALLBACK_URL: no user"),
    "no model": ({"HEADWAY_FALLBACK_MODEL": " "}, "HEADWAY_FALLBACK_MODEL: the name"),
    "a model that is a header": ({"HEADWAY_FALLBACK_MODEL": "a\r\nb"}, "HEADWAY_FALLBACK_MODEL: the name"),
    "a key with a space": ({"HEADWAY_FALLBACK_API_KEY": "hush hush"}, "HEADWAY_FALLBACK_API_KEY: a key"),
    "no key file": ({"HEADWAY_FALLBACK_API_KEY_FILE": "/nowhere"}, "HEADWAY_FALLBACK_API_KEY_FILE .* cannot be read"),
    "no number": ({"HEADWAY_FALLBACK_TIMEOUT_S": "soon"}, "HEADWAY_FALLBACK_TIMEOUT_S: a number"),
    "a model without a URL": ({"HEADWAY_FALLBACK_URL": ""}, "HEADWAY_FALLBACK_MODEL: has no effect"),
}


@pytest.mark.parametrize(("wrong", "said"), BAD.values(), ids=BAD)
def test_a_mistake_is_one_line_that_names_the_variable(wrong: dict[str, str], said: str) -> None:
    """And never shows what may be a secret."""
    with pytest.raises(HeadwayError, match=said) as caught:
        FallbackSettings.from_environment(GOOD | wrong)
    assert "\n" not in str(caught.value)
    assert "hush" not in str(caught.value)


def test_an_empty_key_file_is_a_mistake(tmp_path: Path) -> None:
    """A missing key must not become an empty key."""
    path = tmp_path / "key"
    path.touch()
    with pytest.raises(HeadwayError, match="is empty"):
        FallbackSettings.from_environment(GOOD | {"HEADWAY_FALLBACK_API_KEY_FILE": str(path)})
