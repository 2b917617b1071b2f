"""Checks of the machine: cores, memory, KV space, GPU, disk and port."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from headway.checks.finding import Finding, fail, ok, warn, wrong
from headway_tools.console import Machine, UsageError, cpu_backend, has_vllm, install_command
from headway_tools.console.preflight import check_address
from headway_tools.doctor.gpus import gpus

_GIB: Final = 2**30
_FEW_GIB: Final = 4
_LEAST_GIB: Final = 2
_FEW_DISK_GIB: Final = 5
_LEAST_DISK_GIB: Final = 0.5


def check_machine(
    machine: Machine, engine: Sequence[str], environment: Mapping[str, str], kv_space: Finding | None, *, port: bool
) -> Iterator[Finding]:
    """All checks of the machine; ``kv_space`` is of the CPU backend; ``port``: a server is to be started."""
    yield check_cores(machine)
    yield check_memory(machine)
    if kv_space is not None:
        yield kv_space
    yield from check_gpu(environment)
    yield check_disk(cache_folder(environment))
    if port:
        yield check_port(engine)


def check_cores(machine: Machine) -> Finding:
    """The front end needs a core beside the engine's."""
    found = f"{machine.cpus:.3g} processor cores"
    if machine.cpus < 2:
        return warn(f"{found}: front end and engine share it", "give the server two cores or more")
    return ok(found)


def check_memory(machine: Machine) -> Finding:
    """Free memory, within the limits of control groups."""
    free = machine.free_bytes / _GIB
    limited = " within the limit of the control group" if machine.group_bytes is not None else ""
    found = f"{free:.1f} GiB of memory free{limited}"
    if free < _LEAST_GIB:
        return fail(f"{found}, less than vLLM's processes take", "end other processes, or raise the limit")
    if free < _FEW_GIB:
        return warn(found, "a small model may fit; end other processes, or raise the limit")
    return ok(found)


def check_gpu(environment: Mapping[str, str]) -> Iterator[Finding]:
    """The GPUs that the driver shows; none is needed by vLLM's CPU build."""
    if has_vllm() and cpu_backend():
        yield ok("vLLM's CPU build: no GPU is used")
        return
    try:
        lines = gpus()
    except OSError as error:
        yield fail(f"no NVIDIA GPU: {error}", f"install the driver, or vLLM's CPU build: {install_command('cpu')}")
        return
    if not lines:
        yield fail("the driver shows no GPU", "check nvidia-smi, and that the container is given a GPU")
    for line in lines:
        yield ok(f"GPU {line}")
    if environment.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1"):
        yield fail("CUDA_VISIBLE_DEVICES hides every GPU", "unset it, or name a GPU, such as 0")


def check_disk(folder: Path) -> Finding:
    """Room for vLLM's compile cache, in its folder or the nearest one above that is there."""
    there = next((path for path in (folder, *folder.parents) if path.is_dir()), Path("/"))
    free = shutil.disk_usage(there).free / _GIB
    found = f"{free:.1f} GiB of disk free for the compile cache ({folder})"
    remedy = "free some, or set VLLM_CACHE_ROOT to a folder on another disk"
    if not os.access(there, os.W_OK):
        return fail(f"{there} cannot be written, where the compile cache goes", "set VLLM_CACHE_ROOT, or its rights")
    if free < _LEAST_DISK_GIB:
        return fail(found, remedy)
    return warn(found, remedy) if free < _FEW_DISK_GIB else ok(found)


def check_port(engine: Sequence[str]) -> Finding:
    """Whether the address of the server can be bound."""
    try:
        check_address(engine)
    except UsageError as error:
        return wrong(error, "choose another address")
    return ok("the address of the server is free")


def cache_folder(environment: Mapping[str, str]) -> Path:
    """The folder of vLLM's caches (vllm/envs.py: VLLM_CACHE_ROOT)."""
    caches = environment.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(environment.get("VLLM_CACHE_ROOT") or f"{caches}/vllm").expanduser().absolute()
