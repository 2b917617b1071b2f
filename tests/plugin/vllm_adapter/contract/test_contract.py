"""The parts of vLLM that Headway uses exist in the release at hand, and the committed contract names all of them.

vLLM's source is read and not imported, so all of it takes seconds. `make test-versions` runs this file against other
releases; that an engine serves with them is tested by tests/engine.
"""

from __future__ import annotations

from pathlib import Path

import contract
import pytest
from contract_uses import Use, uses, uses_in
from vllm_source import found_source

from headway.checks.start import _SPLITS
from headway_tools.doctor.contract import Contract, Name, VllmSource, breaks
from headway_tools.doctor.contract.names import FILE

SOURCE = found_source()

with_vllm = pytest.mark.skipif(SOURCE is None, reason="there is no vLLM")

_SCHEDULER = "vllm.v1.core.sched.scheduler"
#: Words in the source of a module that no name shows; with what the module must have for them to matter.
WORDS = (
    (_SCHEDULER, "", ("token_budget = self.max_num_scheduled_tokens", "long_prefill_token")),
    (_SCHEDULER, "", ("len(scheduled_loras) == self.lora_config.max_loras",)),
    (_SCHEDULER, "local_prefill_interval", ("self.local_prefill_interval > 1", "< self.local_prefill_interval")),
    ("vllm.v1.metrics.loggers", "", ('"vllm:num_requests_waiting"',)),
    ("vllm.entrypoints.cli.serve", "", ("setup_server(args",)),
)


@with_vllm
def test_vllm_has_what_headway_needs() -> None:
    """A missing name is named with its module, the releases that have it, and the file that needs it."""
    assert SOURCE is not None
    assert [str(found) for found in breaks(Contract.read(), SOURCE) if found.name.needed] == []


@with_vllm
@pytest.mark.parametrize(("module", "where", "words"), WORDS, ids=lambda value: value if isinstance(value, str) else "")
def test_vllm_reads_anew_what_headway_sets(module: str, where: str, words: tuple[str, ...]) -> None:
    """The source has the words that a name cannot show: what is read in every step, and passed on."""
    assert SOURCE is not None
    text = SOURCE.text(module) or ""
    assert [word for word in words if word not in text and where in text] == []


@with_vllm
def test_the_connectors_that_are_refused_are_vllm_s_own() -> None:
    """Each name stands in the list of the release: one that is gone refuses nothing."""
    assert SOURCE is not None
    text = SOURCE.text("vllm.distributed.kv_transfer.kv_connector.factory") or ""
    assert [name for name in sorted(_SPLITS) if f'"{name}"' not in text] == []


@with_vllm
def test_the_committed_contract_is_that_of_the_code() -> None:
    """Every name that the adapter uses or replaces is in it, and no other; ``deploy/contract.py --write`` renews it."""
    assert SOURCE is not None
    known = Contract.read()
    sources = [SOURCE] if SOURCE.version in known.releases else []
    assert contract.rendered(contract.contract_of(uses(), known, sources)) == FILE.read_text(encoding="utf-8")


def test_every_name_was_seen() -> None:
    """A needed name is in every release looked up, each other one in some: none is a slip of the reader."""
    known = Contract.read()
    assert [name.text for name in known.names if name.needed and name.seen != known.releases] == []
    assert [name.text for name in known.names if not name.seen] == []


def test_a_break_is_one_line(tmp_path: Path) -> None:
    """A release that lacks a member, a parameter and an optional name: a line each, the needed ones first."""
    package = tmp_path / "vllm"
    package.mkdir()
    (package / "_version.py").write_text("__version__ = '0.40.0'\n")
    (package / "a.py").write_text("class Engine:\n    def run(self, prompt): ...\n\nclass Lazy(Engine): ...\n")
    seen = ("0.38.0", "0.39.0")
    names = (
        Name("vllm.a:Extra", False, ("stats",), seen),
        Name("vllm.a:Old", False, ("stats",), seen[:1]),
        Name("vllm.a:Engine.run(prompt)", True, ("adapter",), seen),
        Name("vllm.a:Lazy.run", True, ("adapter",), seen),
        Name("vllm.a:Engine.run(priority)", True, ("adapter", "guard"), seen),
        Name("vllm.b:Engine | vllm.a:Engine", True, ("adapter",), seen),
        Name("vllm.b:Engine", True, ("patch steps",), seen[1:]),
    )
    assert [str(found) for found in breaks(Contract(seen, names), VllmSource(package))] == [
        "vLLM 0.40.0 lacks vllm.a:Engine.run(priority) (seen in 0.38.0 to 0.39.0), needed by adapter, guard",
        "vLLM 0.40.0 lacks vllm.b:Engine (seen in 0.39.0), needed by patch steps",
        "vLLM 0.40.0 lacks vllm.a:Extra (seen in 0.38.0 to 0.39.0), left out by stats",
    ]


def test_uses_are_read_from_the_code(tmp_path: Path) -> None:
    """Imports, members by the word before them, alternatives and parameters; what is asked for first is optional."""
    path = tmp_path / "adapter.py"
    path.write_text(
        "import vllm.exceptions as exceptions\n"
        "from vllm.platforms import current_platform\n"
        "_PLACES = ('vllm.new', 'vllm.old')\n"
        "def use(scheduler, engine):\n"
        "    try:\n"
        "        from vllm.logger import init_logger\n"
        "    except ImportError:\n"
        "        pass\n"
        "    engine.shutdown(timeout=1)\n"
        "    find(_PLACES, 'run')\n"
        "    getattr(exceptions, 'Late', None)\n"
        "    return getattr(scheduler, 'seats', None) or scheduler.slots\n"
    )
    scheduler, client = "vllm.v1.core.sched.scheduler:Scheduler", "vllm.v1.engine.async_llm:AsyncLLM"
    assert uses_in([path], {}) == [
        Use("vllm.exceptions:Late", False, ("adapter",)),
        Use("vllm.logger:init_logger", False, ("adapter",)),
        Use("vllm.new:run | vllm.old:run", True, ("adapter",)),
        Use("vllm.platforms:current_platform", True, ("adapter",)),
        Use(f"{scheduler}.seats | {scheduler}.slots", True, ("adapter",)),
        Use(f"{client}.shutdown", True, ("adapter",)),
        Use(f"{client}.shutdown(timeout)", True, ("adapter",)),
    ]
