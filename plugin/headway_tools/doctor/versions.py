"""Checks of the installed packages."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from headway.checks.finding import Finding, fail, info, ok
from headway.release import version, vllm_version
from headway_tools.console import has_vllm, install_command, missing_dashboard_packages
from headway_tools.console.preflight import no_vllm
from headway_tools.doctor.contract import Contract, VllmSource, breaks


def check_versions() -> Iterator[Finding]:
    """Python, Headway and vLLM, and the dashboard's packages, which are optional."""
    yield ok(f"Python {platform.python_version()}, Headway {version()}")
    if has_vllm():
        yield ok(f"vLLM {vllm_version() or 'of an unknown version'}")
        yield from check_contract(Contract.read(), VllmSource.installed())
    else:
        yield no_vllm()
    missing = missing_dashboard_packages()
    if missing:
        advice = install_command("dashboard")
        yield ok(f"the optional dashboard cannot run here: {', '.join(missing)} missing ({advice})")
    else:
        yield ok("the dashboard's packages are installed")


def check_contract(contract: Contract, source: VllmSource | None) -> Iterator[Finding]:
    """The differences of a vLLM that Headway was not tried with: what it lacks of the names that Headway uses.

    Nothing is imported. A release that was tried is not read.
    """
    if source is None or source.version in contract.releases:
        return
    tried = f"{contract.releases[0]} to {contract.releases[-1]}"
    missing = list(breaks(contract, source))
    for found in missing:
        if found.name.needed:
            yield fail(str(found), f"install a release from {tried}")
        else:
            yield info(str(found), "nothing to do: Headway serves without it")
    if not missing:
        yield ok(
            f"vLLM {source.version or 'of an unknown version'} is not among the tried releases ({tried}), and has all "
            f"{len(contract.names)} names that Headway uses"
        )
