"""The file of the arrivals of the last days: written whole or not at all, read at a start, never an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headway.operator.scaling import ArrivalsFile, arrivals_file
from headway_policies.scaling import ArrivalHistory

SLOTS = 288


def filled(rate: float = 4.0) -> ArrivalHistory:
    history = ArrivalHistory()
    history.recall([[rate, rate]] * SLOTS)
    return history


def test_where_the_file_is(tmp_path: Path) -> None:
    """In the cache folder, one for each model; none where nothing is kept or the model is not known."""
    environment = {"HEADWAY_CACHE_DIR": str(tmp_path)}
    first, second = (arrivals_file(name, environment) for name in ("org/one", "../../two"))
    assert first is not None
    assert second is not None
    assert {first.parent, second.parent} == {tmp_path}
    assert first != second
    assert arrivals_file("", environment) is None
    assert arrivals_file("org/one", {"HEADWAY_CACHE_DIR": ""}) is None


def test_what_is_kept_is_recalled(tmp_path: Path) -> None:
    """Nothing else is left in the folder; what has not changed is not written again."""
    path = tmp_path / "deep" / "arrivals.json"
    file = ArrivalsFile(path, filled())
    file.keep()
    following = ArrivalHistory()
    ArrivalsFile(path, following).recall()
    assert following.remembered() == [[4.0, 4.0]] * SLOTS
    assert [one.name for one in path.parent.iterdir()] == ["arrivals.json"]
    path.unlink()
    file.keep()
    assert not path.exists()


def test_nothing_known_is_not_written(tmp_path: Path) -> None:
    """A start that lasts seconds does not replace the days of the one before it."""
    ArrivalsFile(tmp_path / "arrivals.json", ArrivalHistory()).keep()
    assert list(tmp_path.iterdir()) == []


def test_the_largest_content_can_be_read_again(tmp_path: Path) -> None:
    """Seven days of large numbers are within the bound of the file."""
    path, history = tmp_path / "arrivals.json", ArrivalHistory()
    history.recall([[123456.789] * 7] * SLOTS)
    ArrivalsFile(path, history).keep()
    following = ArrivalHistory()
    ArrivalsFile(path, following).recall()
    assert following.remembered() == history.remembered()


@pytest.mark.parametrize("content", [{"seats": [[1.0]]}, {"seats": [[-1.0]] * SLOTS}], ids=["another day", "negative"])
def test_a_history_that_is_none_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: dict[str, object]
) -> None:
    """The warning names the file and the reason; the history is as it was."""
    path, history = tmp_path / "arrivals.json", filled(2.0)
    path.write_text(json.dumps(content))
    ArrivalsFile(path, history).recall()
    assert history.remembered() == [[2.0, 2.0]] * SLOTS
    assert caplog.messages == [f"the arrivals of the last days are not used: {path}: not what Headway writes"]
