"""Checks of what is installed."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from headway.checks.finding import Finding, ok
from headway.release import version, vllm_version
from headway_tools.console import has_vllm, install_command, missing_dashboard_packages
from headway_tools.console.preflight import no_vllm


def check_versions() -> Iterator[Finding]:
    """Python, Headway and vLLM, and the dashboard's packages, which are optional."""
    yield ok(f"Python {platform.python_version()}, Headway {version()}")
    if has_vllm():
        yield ok(f"vLLM {vllm_version() or 'of an unknown version'}")
    else:
        yield no_vllm()
    missing = missing_dashboard_packages()
    if missing:
        advice = install_command("dashboard")
        yield ok(f"the dashboard cannot run here, which is optional: {', '.join(missing)} missing ({advice})")
    else:
        yield ok("the dashboard's packages are installed")
