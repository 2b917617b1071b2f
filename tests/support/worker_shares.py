"""The order in which pytest-xdist's workers take the tests, and which files stay together on one worker.

A file is never divided: its tests share fixtures. Files that share a server stay together as well, since a server costs
three imports of vLLM, one after the other. Their tests keep an engine busy and watch what it does. So one worker alone
runs them, while another runs the files that mostly wait for servers of their own to start. The longest come first, so
that short files fill the gap at the end.
"""

from __future__ import annotations

from typing import Any

#: Files that stay together because they share something expensive, by what they share; a folder ends with a slash.
TOGETHER: dict[str, tuple[str, ...]] = {
    "the shared servers": ("tests/engine/", "tests/chaos/", "tests/browser/"),
    "vLLM in the test's own process": (
        "tests/plugin/admission/test_max_tokens.py",
        "tests/plugin/vllm_adapter/process/test_caches.py",
        "tests/plugin/vllm_adapter/test_engine_adapter.py",
    ),
}
#: Files that share nothing and take many seconds, the longest first. Those with an engine start servers of their own.
ALONE: tuple[str, ...] = (
    "tests/engine/test_starting_and_stopping.py",
    "tests/chaos/test_orphans.py",
    "tests/engine/test_warmup.py",
    "tests/engine/test_plain_vllm.py",
    "tests/engine/test_readme_example.py",
    "tests/engine/test_wrap.py",
    "tests/deploy/test_checks.py",
    "tests/deploy/test_install.py",
    "tests/dashboard/sources/test_real_prometheus.py",
    "tests/plugin/demo/test_show.py",
    "tests/dashboard/pages/test_pages.py",
    "tests/plugin/http/test_hostile_cost.py",
    "tests/policies/desk/test_desk_machine.py",
    "tests/plugin/admission/test_gate.py",
    "tests/policies/limits/test_limit_scenarios.py",
    "tests/scenarios/test_fair_shares.py",
)
_SERVERS, *_OTHERS = TOGETHER
_ORDER = (_SERVERS, *ALONE, *_OTHERS)


def part_of(nodeid: str) -> str:
    """What stays on one worker with this test: a name of ``TOGETHER``, or its file."""
    path = nodeid.split("::", 1)[0]
    if path in ALONE:
        return path
    return next((name for name, starts in TOGETHER.items() if path.startswith(starts)), path)


def rank(nodeid: str) -> int:
    """The place of a test's part in the order of the workers; the same for all parts that are named nowhere."""
    part = part_of(nodeid)
    return _ORDER.index(part) if part in _ORDER else len(_ORDER)


def make_scheduler(config: Any, log: Any) -> Any:
    """The scheduler of ``--dist loadfile``, with the parts in place of the files."""
    from xdist.scheduler import LoadFileScheduling

    class ByPart(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return part_of(nodeid)

    return ByPart(config, log)
