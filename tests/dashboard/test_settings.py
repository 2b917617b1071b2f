"""The settings of the dashboard, and the secrecy of its token."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway_dashboard.settings import Settings

TOKEN = "t" * 40


def test_defaults() -> None:
    """Without an environment: the local server, read only."""
    settings = Settings.from_environment({})
    assert (settings.url, settings.prometheus_url, settings.role) == ("http://127.0.0.1:8000", None, "none")


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("http://a:1", ("http://a:1",)),
        ("http://a:1/, http://b:2 ,", ("http://a:1", "http://b:2")),
        ("http://a:1,http://a:1/", ("http://a:1",)),
        (" , ", ("http://127.0.0.1:8000",)),
        (",".join(f"http://h:{port}" for port in range(1, 99)), tuple(f"http://h:{port}" for port in range(1, 33))),
    ],
    ids=["one", "two", "twice the same", "none", "very many"],
)
def test_servers(text: str, urls: tuple[str, ...]) -> None:
    """A list with commas; the first one is the one that is changed."""
    settings = Settings.from_environment({"HEADWAY_URL": text})
    assert settings.urls == urls
    assert settings.url == urls[0]
    assert settings.of(urls[-1]).urls == (urls[-1],)
    assert (settings.address == urls[0]) == (len(urls) == 1)


@pytest.mark.parametrize(
    ("environment", "role"),
    [
        ({"HEADWAY_ADMIN_TOKEN": TOKEN}, "operator"),
        ({"HEADWAY_VIEWER_TOKEN": TOKEN}, "viewer"),
        ({"HEADWAY_ADMIN_TOKEN": TOKEN, "HEADWAY_VIEWER_TOKEN": "v" * 40}, "operator"),
    ],
)
def test_roles(environment: dict[str, str], role: str) -> None:
    """The operator's token comes first; a viewer's token alone reads."""
    settings = Settings.from_environment(environment)
    assert (settings.role, settings.token) == (role, TOKEN)


def test_token_file(tmp_path: Path) -> None:
    """A token file is read once, without its line end."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    settings = Settings.from_environment({"HEADWAY_ADMIN_TOKEN_FILE": str(tmp_path / "token")})
    assert settings.token == TOKEN


@pytest.mark.parametrize(("content", "word"), [(None, "cannot be read"), ("", "empty file")])
def test_bad_token_file(tmp_path: Path, content: str | None, word: str) -> None:
    """A token file that does not help is named, not swallowed."""
    if content is not None:
        (tmp_path / "token").write_text(content)
    settings = Settings.from_environment({"HEADWAY_ADMIN_TOKEN_FILE": str(tmp_path / "token")})
    assert settings.token is None
    assert word in (settings.token_problem or "")


def test_token_is_in_no_text_and_no_comparison() -> None:
    """``repr`` and equality, and so logs and cache keys, do not contain the token."""
    settings = Settings.from_environment({"HEADWAY_ADMIN_TOKEN": TOKEN})
    assert TOKEN not in repr(settings)
    assert settings == Settings.from_environment({"HEADWAY_ADMIN_TOKEN": "u" * 40})


@pytest.mark.parametrize(("text", "refresh_s"), [("5", 5.0), ("0", 2.0), ("soon", 2.0), ("", 2.0), ("nan", 2.0)])
def test_refresh(text: str, refresh_s: float) -> None:
    """A refresh interval out of range is the default."""
    assert Settings.from_environment({"HEADWAY_REFRESH_S": text}).refresh_s == refresh_s


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://wiki/headway", "https://wiki/headway"),
        ("", ""),
        ("javascript:alert(1)", ""),
        ("https://wiki/a) [b](https://c", ""),
    ],
)
def test_the_page_of_the_runbooks_is_a_web_page(text: str, url: str) -> None:
    """Anything else is no link."""
    assert Settings.from_environment({"HEADWAY_RUNBOOKS_URL": text}).runbooks_url == url
