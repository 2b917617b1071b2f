"""Cores, free memory and limits of control groups, read from files as Linux writes them."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from headway_tools.console import machine
from headway_tools.console.machine import Machine, cpu_backend, read_machine

MIB = 2**20
NODE = """\
Node {node} MemTotal:       8388608 kB
Node {node} MemFree:        {free} kB
Node {node} Active(file):   1024 kB
Node {node} Inactive(file): 1024 kB
Node {node} SReclaimable:   2048 kB
Node {node} HugePages_Total:     0
"""


def write(root: Path, files: dict[str, str]) -> Path:
    """A machine's files below ``root``."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def nodes(*free_kib: int) -> dict[str, str]:
    """The memory nodes of a machine."""
    return {
        f"sys/devices/system/node/node{node}/meminfo": NODE.format(node=node, free=kib)
        for node, kib in enumerate(free_kib)
    }


def test_free_memory_is_counted_by_node_with_what_the_page_cache_gives_back(tmp_path: Path) -> None:
    """As vLLM counts it before it allocates its KV cache."""
    read = read_machine({}, write(tmp_path, nodes(1024 * 1024, 512 * 1024)))
    assert read.node_bytes == (1028 * MIB, 516 * MIB)
    assert read.node_sizes == (8192 * MIB, 8192 * MIB)
    assert read.group_bytes is None
    assert read.free_bytes == 1544 * MIB


def test_a_machine_without_nodes_has_one(tmp_path: Path) -> None:
    """There the system's own figure counts."""
    read = read_machine({}, tmp_path)
    assert len(read.node_bytes) == 1
    assert 0 < read.node_bytes[0] <= psutil.virtual_memory().total == read.node_sizes[0]


@pytest.mark.parametrize(
    ("cpuinfo", "slow", "emulated"),
    [
        pytest.param("processor\t: 0\nflags\t\t: fpu avx2 fma\n", True, False, id="x86 without AVX-512"),
        pytest.param("processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512bw\n", False, True, id="AVX-512 alone"),
        pytest.param("processor\t: 0\nflags\t\t: fpu avx512f avx512_bf16\n", False, False, id="with AVX512_BF16"),
        pytest.param("processor\t: 0\nflags\t\t: fpu avx512f amx_bf16\n", False, False, id="with AMX"),
        pytest.param("processor\t: 0\nFeatures\t: fp asimd bf16\n", False, False, id="another processor"),
        pytest.param("", False, False, id="none said"),
    ],
)
def test_the_speed_of_16_bit_floats_is_told_by_the_instructions(
    tmp_path: Path, cpuinfo: str, slow: bool, emulated: bool
) -> None:
    """Slow on x86 without AVX-512, emulated where AVX-512 lacks bfloat16; other processors list no flags."""
    read = read_machine({}, write(tmp_path, {"proc/cpuinfo": cpuinfo}))
    assert (read.slow_16bit, read.emulated_bf16) == (slow, emulated)


@pytest.mark.parametrize(
    ("files", "left_mib"),
    [
        pytest.param({"memory.max": "1073741824", "memory.current": "104857600"}, 924, id="version 2, in a container"),
        pytest.param({"memory.max": "max", "memory.current": "104857600"}, None, id="version 2, no limit"),
        pytest.param(
            {"memory/memory.limit_in_bytes": "1073741824", "memory/memory.usage_in_bytes": "2147483648"},
            0,
            id="version 1, nothing left",
        ),
        pytest.param({"memory/memory.limit_in_bytes": "9223372036854771712"}, None, id="version 1, no limit"),
        pytest.param(
            {"a/memory.max": "536870912", "a/memory.current": "0", "a/b/memory.max": "max"}, 512, id="a group above"
        ),
        pytest.param(
            {"memory/a/b/memory.limit_in_bytes": "268435456", "memory/a/memory.limit_in_bytes": "536870912"},
            256,
            id="the smallest of several",
        ),
    ],
)
def test_the_limit_of_a_control_group_counts(files: dict[str, str], left_mib: int | None, tmp_path: Path) -> None:
    """Of this group and of all above it, in both versions."""
    groups = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    own = {"proc/self/cgroup": "4:memory:/a/b\n1:cpu,cpuacct:/a\n0::/a/b\n"}
    read = read_machine({}, write(tmp_path, {**nodes(8 * 1024 * 1024), **groups, **own}))
    assert read.group_bytes == (None if left_mib is None else left_mib * MIB)
    assert read.free_bytes == min(8196, 8196 if left_mib is None else left_mib) * MIB


@pytest.mark.parametrize(
    ("prefix", "files"),
    [
        ("", {"memory.max": "1073741824", "memory.current": "1073741824"}),
        ("memory/", {"memory/memory.limit_in_bytes": "1073741824", "memory/memory.usage_in_bytes": "1073741824"}),
    ],
    ids=["version 2", "version 1"],
)
def test_pages_of_files_are_free_for_a_process_and_used_for_vllms_cache(
    prefix: str, files: dict[str, str], tmp_path: Path
) -> None:
    """A server that has read its weights has them in its group; vLLM counts them as used when it sizes its cache."""
    stat = "anon 104857600\nactive_file 419430400\ninactive_file 209715200\nslab_reclaimable 104857600\n"
    stat += "total_active_file 419430400\ntotal_inactive_file 314572800\nshmem 52428800\n"
    groups = {f"sys/fs/cgroup/{name}": text for name, text in {**files, f"{prefix}memory.stat": stat}.items()}
    read = read_machine({}, write(tmp_path, {**nodes(8 * 1024 * 1024), **groups}))
    assert (read.group_bytes, read.group_free_bytes, read.free_bytes) == (0, 700 * MIB, 700 * MIB)


@pytest.mark.parametrize(
    ("allowed", "chosen", "seen"),
    [
        ("0-1,3", {}, (0, 1, 3)),
        ("1", {}, (1,)),
        ("0-3", {"CPU_VISIBLE_MEMORY_NODES": "1,2"}, (1, 2)),
        ("0-1", {"CPU_VISIBLE_MEMORY_NODES": "1,2"}, (1,)),
        ("0-3", {"CPU_VISIBLE_MEMORY_NODES": "1", "VLLM_CPU_SIM_MULTI_NUMA": "1"}, (0, 1, 2, 3)),
        ("0-3", {"CPU_VISIBLE_MEMORY_NODES": ""}, (0, 1, 2, 3)),
        ("", {}, (0, 1, 2, 3)),
    ],
)
def test_only_the_nodes_that_vllm_may_use_count(
    allowed: str, chosen: dict[str, str], seen: tuple[int, ...], tmp_path: Path
) -> None:
    """Those that the kernel allows the process, and of these the ones that the operator has chosen."""
    sizes = (1000, 2000, 3000, 4000)
    status = {"proc/self/status": f"Name:\tpython\nMems_allowed_list:\t{allowed}\nThreads:\t1\n"} if allowed else {}
    read = read_machine(chosen, write(tmp_path, {**nodes(*(1024 * mib for mib in sizes)), **status}))
    assert read.node_bytes == tuple((sizes[node] + 4) * MIB for node in seen)


@pytest.mark.parametrize(
    ("files", "size_mib"),
    [
        ({"memory.max": "1073741824"}, 1024),
        ({"memory/memory.limit_in_bytes": "1073741824"}, 1024),
        ({"memory/memory.limit_in_bytes": "9223372036854771712"}, 8192),
        ({"a/memory.max": "1073741824"}, 8192),
    ],
    ids=["version 2", "version 1", "no limit", "the limit of an inner group"],
)
def test_the_size_of_a_node_is_the_one_that_vllm_sees(files: dict[str, str], size_mib: int, tmp_path: Path) -> None:
    """vLLM looks at the outermost control group alone, which in a container is its own."""
    groups = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    own = {"proc/self/cgroup": "4:memory:/a\n0::/a\n"}
    read = read_machine({}, write(tmp_path, {**nodes(8 * 1024 * 1024), **groups, **own}))
    assert read.node_sizes == (size_mib * MIB,)


@pytest.mark.parametrize(
    "files",
    [{"cpu.max": "50000 100000"}, {"cpu/a/cpu.cfs_quota_us": "50000", "cpu/a/cpu.cfs_period_us": "100000"}],
    ids=["version 2", "version 1"],
)
def test_a_quota_of_processor_time_counts(files: dict[str, str], tmp_path: Path) -> None:
    """Half a processor, however many cores are there."""
    groups = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    own = {"proc/self/cgroup": "1:cpu,cpuacct:/a\n0::/a/b\n"}
    assert read_machine({}, write(tmp_path, {**groups, **own})).cpus == 0.5


def test_without_a_quota_all_cores_count(tmp_path: Path) -> None:
    """Also where the file says so in words, or as -1."""
    read = read_machine({}, write(tmp_path, {"sys/fs/cgroup/cpu.max": "max 100000"}))
    assert read.cpus == len(read.cores) > 0
    read = read_machine(
        {}, write(tmp_path, {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "1"})
    )
    assert read.cpus == len(read.cores)


def test_a_compiler_is_one_of_the_user_or_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch compiles with ``CXX``, else with what it finds."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not read_machine({}, tmp_path).compiles
    assert read_machine({"CXX": "mine"}, tmp_path).compiles
    (tmp_path / "clang++").touch(mode=0o755)
    assert read_machine({}, tmp_path).compiles


@pytest.mark.parametrize(
    ("installed", "is_cpu"),
    [
        ({"vllm-cpu": "0.32.0"}, True),
        ({"vllm": "0.32.0+cpu"}, True),
        ({"vllm": "0.32.0"}, False),
        ({}, False),
    ],
    ids=["vllm-cpu", "a CPU image", "GPU", "none"],
)
def test_the_cpu_build_is_known_by_its_name(
    installed: dict[str, str], is_cpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an import of vLLM."""
    monkeypatch.setattr(machine, "_version", installed.get)
    assert cpu_backend() is is_cpu


def test_free_memory_is_never_more_than_a_group_leaves() -> None:
    """And never more than there is."""
    assert Machine((0,), 1.0, (5, 6), None, compiles=True).free_bytes == 11
    assert Machine((0,), 1.0, (5, 6), 7, compiles=True).free_bytes == 7
