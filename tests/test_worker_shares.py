"""Tests of the shares of the workers: the tables name files that exist, and the order is the documented one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from worker_shares import (
    ALONE,
    DIVIDED,
    LIGHT,
    OWN_ENGINES,
    TIMED,
    TOGETHER,
    is_last,
    is_light,
    make_scheduler,
    part_of,
    rank,
)

ROOT = Path(__file__).parents[1]


def test_every_name_in_the_tables_exists() -> None:
    """A file that moved would lose its place in silence."""
    starts = [*LIGHT, *TIMED, *(start for part in TOGETHER.values() for start in part)]
    assert [one for one in (*starts, *OWN_ENGINES, *ALONE) if not [*ROOT.glob(f"{one}*")]] == []


@pytest.mark.parametrize(("fixture", "folders"), [("server", ("engine", "browser")), ("chaos", ("chaos",))])
def test_files_that_share_a_server_stay_together(fixture: str, folders: tuple[str, ...]) -> None:
    """Else each worker would start that server."""
    files = [path for folder in folders for path in (ROOT / "tests" / folder).glob("test_*.py")]
    asks = re.compile(rf"^(async )?def test_\w+\([^)]*\b{fixture}(_url)?:", re.MULTILINE)
    parts = {part_of(path.relative_to(ROOT).as_posix()) for path in files if asks.search(path.read_text())}
    assert len(parts) == 1
    assert parts <= set(TOGETHER)


def test_the_named_parts_come_first_and_each_has_its_place() -> None:
    """All other files keep their order."""
    firsts = [starts[0] for starts in TOGETHER.values()]
    named = [*(f"{one}test_it.py" if one.endswith("/") else one for one in firsts), *OWN_ENGINES, *ALONE]
    ranks = [rank(f"{one}::test_it[a]") for one in named]
    last = rank("tests/policies/desk/test_desk.py::test_it")
    assert sorted(ranks) == list(range(last - 1))
    assert {rank(f"{one}::test_it[a]") for one in DIVIDED} == {last - 1}
    assert last == rank("tests/policies/desk/test_ledger.py::test_it")


class Gateway:
    def __init__(self, name: str) -> None:
        self.id = name


class Node:
    """A worker, as the scheduler sees it."""

    def __init__(self, name: str) -> None:
        self.gateway = Gateway(name)
        self.shutting_down = False
        self.got: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.got += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def given(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, files: list[str]) -> list[list[str]]:
    """What each of three workers gets first, when these files have a test each."""
    config, tests = request.config, [f"{one}::test_it" for one in files]
    monkeypatch.setattr(config.option, "loadscopereorder", False)
    monkeypatch.setattr(config.option, "tx", ["3*popen"])
    scheduler, nodes = make_scheduler(config, None), [Node(f"gw{number}") for number in range(3)]
    for node in nodes:
        scheduler.add_node(node)
        scheduler.add_node_collection(node, tests)
    scheduler.schedule()
    return [[files[index] for index in node.got] for node in nodes]


LIGHT_FILE, HEAVY_FILE = "tests/policies/desk/test_{}.py", "tests/deploy/test_{}.py"


def test_the_last_worker_takes_light_parts_only(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others take what comes first; it takes the first that is light, and ends when none is left."""
    heavy, light = [[form.format(number) for number in range(9)] for form in (HEAVY_FILE, LIGHT_FILE)]
    first, second, last = given(request, monkeypatch, [*heavy, *light])
    assert set(first) | set(second) <= set(heavy)
    assert last == light[: len(last)]
    assert len(last) >= 1
    assert given(request, monkeypatch, heavy)[2] == []


def test_what_an_engine_needs_is_never_light() -> None:
    """Nor what the workers keep together; the last of two is one, and a single worker takes everything."""
    assert [one for one in TOGETHER if is_light(one)] == []
    assert not is_light(part_of("tests/plugin/admission/test_max_tokens.py::test_it"))
    assert is_light(part_of("tests/policies/desk/test_desk.py::test_it"))
    assert not is_light(part_of("tests/tools/cli/test_tune.py::test_it"))
    assert (is_last("gw2", 3), is_last("gw1", 3), is_last("gw0", 1)) == (True, False, False)
