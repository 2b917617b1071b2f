"""The name of Ray's package, which vLLM imports where it is installed."""

from __future__ import annotations

from importlib.machinery import PathFinder
from pathlib import Path

import pytest


def test_no_folder_here_is_imported_in_place_of_ray(pytestconfig: pytest.Config, root: Path) -> None:
    """A folder named ray beside the scripts of deploy/ would be a package of that name without a file of its own."""
    folders = {str(path) for path in pytestconfig.getini("pythonpath")}
    assert str(root / "deploy") in folders
    assert PathFinder.find_spec("ray", sorted(folders)) is None
