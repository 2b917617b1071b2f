"""The order in which pytest-xdist's workers take the tests, and which files stay together on one worker.

A file is divided only where its tests share no fixtures (``DIVIDED``). Files that share a server stay together as well,
since a server costs three imports of vLLM, one after the other. Their tests keep an engine busy and watch what it does.
So one worker alone runs those of the shared server, while another runs the files that mostly wait for servers of their
own to start; those of the server with faults come after these. The longest come first, so that short files fill the gap
at the end. Within a part the tests that are marked ``starts_server`` come first, and those that are marked
``ends_server`` last.

Beside a worker for each processor there is one more, the last, for the time in which those wait. It takes light parts
only, which need a processor and nothing else, and gives way to the others (``nice``).
"""

from __future__ import annotations

import os
from typing import Any

#: Files that stay together because they share something expensive, by what they share; a folder ends with a slash.
TOGETHER: dict[str, tuple[str, ...]] = {
    "the server with keys": (
        "tests/engine/test_access.py",
        "tests/engine/test_canaries.py",
        "tests/engine/test_usage.py",
        "tests/engine/test_plain_vllm.py",
    ),
    "the shared server": ("tests/engine/", "tests/browser/test_real_server.py", "tests/chaos/test_instances.py"),
    "the server with faults": ("tests/chaos/",),
    "vLLM in the test's own process": (
        "tests/plugin/admission/test_max_tokens.py",
        "tests/plugin/vllm_adapter/contract/test_guarded_application.py",
        "tests/plugin/vllm_adapter/contract/test_imports.py",
        "tests/plugin/vllm_adapter/grammars/test_walk.py",
        "tests/plugin/vllm_adapter/process/test_caches.py",
        "tests/plugin/vllm_adapter/test_call_bounds.py",
        "tests/plugin/vllm_adapter/test_engine_adapter.py",
        "tests/tools/doctor/test_engine_flags.py",
    ),
}
#: Files with engines of their own, the longest first.
OWN_ENGINES: tuple[str, ...] = (
    "tests/engine/test_gpu_check.py",
    "tests/engine/test_features.py",
    "tests/engine/test_data_parallel.py",
    "tests/engine/test_own_server.py",
    "tests/engine/test_parity.py",
    "tests/engine/test_wrap.py",
    "tests/engine/test_readme_example.py",
    "tests/engine/test_starting_and_stopping.py",
)
#: Files that share nothing, have no engine and take many seconds, the longest first.
ALONE: tuple[str, ...] = (
    "tests/browser/test_dashboard_page.py",
    "tests/deploy/test_install.py",
    "tests/plugin/test_where_presets_act.py",
    "tests/plugin/http/admin/test_document_fuzz.py",
    "tests/dashboard/sources/test_real_prometheus.py",
    "tests/plugin/router/test_routing.py",
    "tests/plugin/router/test_other_servers.py",
    "tests/tools/demo/test_show.py",
    "tests/tools/cli/measuring/test_tune.py",
    "tests/dashboard/pages/test_every_page.py",
    "tests/dashboard/pages/test_pages.py",
    "tests/plugin/http/test_hostile_cost.py",
    "tests/policies/desk/test_desk_machine.py",
    "tests/policies/limits/test_limit_scenarios.py",
    "tests/scenarios/test_fair_shares.py",
)
#: Files without fixtures whose tests take many seconds each: every test is a part of its own, after ``ALONE``.
DIVIDED: tuple[str, ...] = ("tests/scenarios/test_any_engine.py",)
#: Tests with an engine, a browser, an installer or servers in processes of their own, by how their paths begin; the
#: last two measure times, and so have to be given a processor at once.
HEAVY: tuple[str, ...] = (
    "tests/browser/",
    "tests/chaos/",
    "tests/deploy/",
    "tests/engine/",
    "tests/plugin/own_server/",
    "tests/plugin/router/test_other_servers.py",
    "tests/plugin/router/test_routing.py",
    "tests/plugin/router/test_two_fronts.py",
    "tests/plugin/vllm_adapter/",
    "tests/tools/demo/",
    "tests/tools/load/",
    "tests/tools/cli/measuring/test_bench.py",
    "tests/tools/cli/measuring/test_tune.py",
)
MOST_PROCESSORS = 4
_NICE = 10
_KEYS, _SHARED, _FAULTS, *_OTHERS = TOGETHER
_ORDER = (_SHARED, _KEYS, *OWN_ENGINES, _FAULTS, *ALONE, *_OTHERS)


def part_of(nodeid: str) -> str:
    """What stays on one worker with this test: a name of ``TOGETHER``, or its file."""
    path = nodeid.split("::", 1)[0]
    if path in DIVIDED:
        return nodeid
    if path in OWN_ENGINES or path in ALONE:
        return path
    return next((name for name, starts in TOGETHER.items() if path.startswith(starts)), path)


def rank(nodeid: str) -> int:
    """The place of a test's part in the order of the workers; the same for all parts that are named nowhere."""
    part = part_of(nodeid)
    return _ORDER.index(part) if part in _ORDER else len(_ORDER) + (not nodeid.startswith(DIVIDED))


def is_light(part: str) -> bool:
    """Whether the last worker may take this part."""
    return part not in TOGETHER and not part.startswith(HEAVY)


def workers() -> int:
    """One for each processor, four at most as each may import vLLM and start a server (3 GB), and one for what is
    light."""
    return min(len(os.sched_getaffinity(0)), MOST_PROCESSORS) + 1


def is_last(worker: str, count: int) -> bool:
    """Whether this worker, ``gw0`` the first, is the one for light parts."""
    return count > 1 and worker == f"gw{count - 1}"


def give_way(worker: str, count: int) -> None:
    """To be called in each worker's process: the last one runs where the others leave a processor idle."""
    if is_last(worker, count):
        os.nice(_NICE)


def make_scheduler(config: Any, log: Any) -> Any:
    """The scheduler of ``--dist loadfile``, with parts in place of files; the last worker gets light parts only."""
    from xdist.scheduler import LoadFileScheduling

    class ByPart(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return part_of(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            if is_last(node.gateway.id, self.numnodes):
                light = next(filter(is_light, self.workqueue), None)
                if light is None:
                    node.shutdown()
                    return
                self.workqueue.move_to_end(light, last=False)
            super()._assign_work_unit(node)

    return ByPart(config, log)
