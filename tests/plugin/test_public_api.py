"""The packages' public API: what they export equals what they declare, without an engine."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

import headway
import headway_policies
import headway_simulator
import headway_tools
from headway import errors

PACKAGES = [headway, headway_policies]

WITHOUT_VLLM = """
import importlib.abc, sys
class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"{{name}} is blocked", name=name)
sys.meta_path.insert(0, Blocker())
"""


def run_without(blocked: set[str], program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter in which these packages cannot be imported."""
    code = WITHOUT_VLLM.format(blocked=sorted(blocked)) + program
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_all_is_sorted_and_true(package: ModuleType) -> None:
    """__all__ is in order, names nothing twice, and every name is there."""
    names = package.__all__
    assert names == sorted(names)
    assert len(set(names)) == len(names)
    assert all(hasattr(package, name) for name in names)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_nothing_public_is_missing_from_all(package: ModuleType) -> None:
    """Whatever a user can reach at the top without an underscore is either offered or a module."""
    names = {name for name in {*vars(package), *dir(package)} if not name.startswith("_")}
    reachable = {name for name in names if not isinstance(getattr(package, name), ModuleType)}
    assert reachable - {"annotations", "version"} == set(package.__all__)  # version() stands behind __version__


def test_every_error_of_the_tree_is_offered_and_drawn() -> None:
    """The tree in the docstring is the tree of classes, and users can catch each by name."""
    drawn = errors.__doc__ or ""
    tree = {
        name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, errors.HeadwayError)
    }
    assert all(name in drawn for name in tree)
    assert tree <= set(headway.__all__)


def test_the_packages_import_and_work_without_an_engine() -> None:
    """`pip install .` alone: import, wrap a fake engine and read a preset, with vLLM and torch out of reach."""
    program = """
import asyncio, headway, headway_policies, headway_tools.cli
from headway.engine.fake import FakeEngine, FakeParams
engine = headway.wrap(FakeEngine(step_s=0), preset="latency")
async def main():
    return [one async for one in engine.generate("text", FakeParams(2), "a", priority="realtime")]
print(len(asyncio.run(main())), headway_policies.bundled_presets()["latency"].batching.seats)
"""
    done = run_without({"vllm", "torch", "streamlit"}, program)
    assert (done.returncode, done.stdout) == (0, "2 8\n"), done.stderr


def test_the_policies_import_without_the_plugin_and_without_a_web_framework() -> None:
    """The decisions stand alone: no plugin, no engine, no HTTP, no metrics."""
    blocked = {"vllm", "headway", "headway_dashboard", "starlette", "prometheus_client", "requests", "psutil"}
    done = run_without(blocked, "import headway_policies; print('balanced' in headway_policies.bundled_presets())")
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_the_process_that_compiles_grammars_imports_no_more_than_it_needs() -> None:
    """Each grammar is compiled in a copy of that process, so that process has neither the policies nor a web server."""
    blocked = {"vllm", "headway_policies", "starlette", "prometheus_client", "requests", "pydantic"}
    done = run_without(blocked, "import headway.vllm_adapter.grammars.compile_server")
    assert done.returncode == 0, done.stderr


def test_every_module_outside_the_adapter_imports_without_vllm() -> None:
    """The adapter is the one place that touches the engine."""
    names = [
        info.name
        for package in (headway, headway_simulator, headway_tools)
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if "vllm_adapter" not in info.name and not info.name.endswith("__main__")
    ]
    assert "headway.admission.gate" in names
    done = run_without(
        {"vllm", "torch"}, "import importlib\n" + "\n".join(f"importlib.import_module({n!r})" for n in names)
    )
    assert done.returncode == 0, done.stderr


def test_the_version_is_the_installed_one() -> None:
    """headway.__version__ is that of the distribution."""
    assert headway.__version__ == importlib.import_module("importlib.metadata").version("vllm-headway")
