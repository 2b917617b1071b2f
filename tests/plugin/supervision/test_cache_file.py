"""A file that a server keeps for the next one: an error costs one warning and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from headway.supervision import CacheFile


class Content(BaseModel):
    """A number."""

    number: int


def file_at(path: Path) -> CacheFile[Content]:
    return CacheFile(path, Content, 100, "the number is")


@pytest.mark.parametrize(
    ("content", "expected"),
    [("{}", "not what Headway writes"), ("not json", "not what Headway writes"), ("x" * 101, "larger than 100 bytes")],
    ids=["empty", "no JSON", "too large"],
)
def test_a_file_that_cannot_be_used_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str, expected: str
) -> None:
    """The warning names the file and the reason, and shows nothing of the content, which nobody gets."""
    path, taken = tmp_path / "number.json", list[Content]()
    path.write_text(content)
    file = file_at(path)
    file.recall(taken.append)
    assert (taken, file.kept) == ([], None)
    assert caplog.messages == [f"the number is not used: {path}: {expected}"]


def test_a_folder_that_cannot_be_written_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Further attempts, for other contents too, log nothing."""
    (tmp_path / "file").write_text("")
    kept = file_at(tmp_path / "file" / "number.json")
    for number in (1, 1, 2):
        kept.keep(Content(number=number))
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("the number is not kept: ")
