"""`make release` refuses what must not be released, and says what comes next."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
import release

AUTHOR = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
CHANGES = "# Changes\n\n## 1.2.0 - 2026-01-31\n\nA figure is right.\n\n## 1.1.0 - 2026-01-01\n\nThe first.\n"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with one commit, ready to be released as 1.2.0."""
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n', encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text(CHANGES, encoding="utf-8")
    release.git(tmp_path, "init", "--quiet")
    _commit(tmp_path)
    return tmp_path


def _commit(clone: Path) -> None:
    release.git(clone, "add", "--all")
    release.git(clone, *AUTHOR, "commit", "--quiet", "--message", "A change")


def test_a_committed_version_with_its_changes_is_released(clone: Path) -> None:
    """Nothing stands against it."""
    assert release.version_of(clone) == "1.2.0"
    assert release.refusals(clone, "1.2.0") == []


def test_a_tree_that_is_not_as_committed_is_refused(clone: Path) -> None:
    """A changed file and a new one."""
    (clone / "CHANGELOG.md").write_text(CHANGES + "\n", encoding="utf-8")
    (clone / "new.py").touch()
    (reason,) = release.refusals(clone, "1.2.0")
    assert reason == "not as committed: CHANGELOG.md, new.py; commit or remove them"


def test_a_version_that_has_its_tag_is_refused(clone: Path) -> None:
    """The version was released from this commit or from another."""
    release.git(clone, "tag", "v1.2.0")
    (reason,) = release.refusals(clone, "1.2.0")
    assert "the tag v1.2.0 is there already" in reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (CHANGES.replace(" - 2026-01-31", " (unreleased)"), "no section with a date"),
        (CHANGES.replace("1.2.0", "1.3.0"), "no section with a date"),
        (CHANGES.replace("A figure is right.\n", ""), "says nothing of 1.2.0"),
    ],
    ids=["not dated", "another version", "empty"],
)
def test_a_version_without_its_changes_is_refused(changes: str, reason: str, clone: Path) -> None:
    """Its section has a date and a text."""
    (clone / "CHANGELOG.md").write_text(changes, encoding="utf-8")
    _commit(clone)
    (found,) = release.refusals(clone, "1.2.0")
    assert reason in found


def test_a_version_is_dated_and_can_then_be_released(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal names the command, and nothing but the heading changes."""
    undated = CHANGES.replace("1.2.0 - 2026-01-31", "1.2.0 (unreleased)")
    (clone / "CHANGELOG.md").write_text(undated, encoding="utf-8")
    _commit(clone)
    (reason,) = release.refusals(clone, "1.2.0")
    assert reason.endswith("date it: make release ARGS=--date")
    told = release.date_changes(clone, "1.2.0", date(2026, 1, 31))
    assert told == "CHANGELOG.md: 1.2.0 is dated 2026-01-31. Commit it, then: make release"
    assert (clone / "CHANGELOG.md").read_text(encoding="utf-8") == CHANGES
    _commit(clone)
    assert release.refusals(clone, "1.2.0") == []
    monkeypatch.setattr(release, "ROOT", clone)
    assert release.main(["--date"]) == 1, "a section that has its date"
    assert (clone / "CHANGELOG.md").read_text(encoding="utf-8") == CHANGES


def test_a_refused_release_builds_nothing(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rehearsal builds, and says that its files are not to be published."""
    (clone / "new.py").touch()
    out = clone / "out" / "release" / "1.2.0"
    made = list[str]()

    def make(version: str) -> Path:
        made.append(version)
        out.mkdir(parents=True)
        (out / "vllm_headway-1.2.0-py3-none-any.whl").touch()
        return out

    monkeypatch.setattr(release, "ROOT", clone)
    monkeypatch.setattr(release, "OUT", clone / "out" / "release")
    monkeypatch.setattr(release, "_make", make)
    assert release.main([]) == 2
    assert made == []
    assert capsys.readouterr().err.startswith("release of 1.2.0 refused: not as committed: new.py")
    assert release.main(["--rehearse"]) == 0
    assert made == ["1.2.0"]
    printed = capsys.readouterr().out
    assert "A rehearsal, not to be published." in printed
    assert "git tag --sign v1.2.0" in printed
    assert "twine upload --repository testpypi out/release/1.2.0/vllm_headway-1.2.0-py3-none-any.whl" in printed


def test_a_folder_without_git_is_an_error_in_one_line(tmp_path: Path) -> None:
    """Without git the content of a release is not known."""
    with pytest.raises(release.StepError, match=r"^git status: "):
        release.git(tmp_path, "status")
