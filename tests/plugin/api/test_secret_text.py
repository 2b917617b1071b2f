"""A secret comes from a variable or from the file that it names, and shows in no repr and no error."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.api.secret_text import MAX_FILE_BYTES, Secret, SecretFileError, find_secret, is_one_word


def test_the_variable_comes_before_the_file(tmp_path: Path) -> None:
    """An empty variable is not set; the text of a file is stripped, that of a variable is not."""
    path = tmp_path / "secret"
    path.write_text(" hush\n")
    file = {"KEY_FILE": f" {path} "}
    assert find_secret("KEY", {}) is None
    assert find_secret("KEY", {"KEY": "", "KEY_FILE": " "}) is None
    assert find_secret("KEY", {"KEY": "hush \n", **file}) == Secret("hush \n", "KEY")
    assert find_secret("KEY", {"KEY": "", **file}) == Secret("hush", "KEY_FILE", str(path))
    assert [Secret("hush", "KEY").source, Secret("hush", "KEY_FILE", "/f").source] == ["KEY", "KEY_FILE (/f)"]


def test_an_empty_file_is_an_empty_secret(tmp_path: Path) -> None:
    """The caller decides what that means."""
    path = tmp_path / "secret"
    path.touch()
    assert find_secret("KEY", {"KEY_FILE": str(path)}) == Secret("", "KEY_FILE", str(path))


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (None, "No such file or directory"),
        (b"hush\xff", "not UTF-8 text"),
        (b"hush" * MAX_FILE_BYTES, "larger than 16384 bytes"),
    ],
    ids=["missing", "not text", "too large"],
)
def test_a_file_that_cannot_be_read_is_named_with_its_variable(
    content: bytes | None, cause: str, tmp_path: Path
) -> None:
    """In one line, without the content."""
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SecretFileError) as caught:
        find_secret("KEY", {"KEY_FILE": str(path)})
    assert str(caught.value) == f"KEY_FILE ({path}): cannot be read: {cause}"
    assert (caught.value.variable, caught.value.cause) == ("KEY_FILE", cause)


def test_the_text_is_in_no_repr() -> None:
    """Nor in the variable that it came from."""
    assert "hush" not in repr(Secret("hush", "KEY"))


@pytest.mark.parametrize(("text", "one"), [("sk-1", True), ("two words", False), ("line\n", False), ("é", False)])
def test_one_word_is_what_a_header_can_carry(text: str, one: bool) -> None:
    """Printable ASCII without spaces."""
    assert is_one_word(text) is one
