"""A Prometheus, or an Alertmanager, in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import requests
from running_server import ending_with_us, free_port, wait_until


def program(name: str) -> str:
    """Where it is installed; without it the test is skipped, and fails in CI."""
    binary = shutil.which(name)
    if binary is None and os.environ.get("CI"):
        pytest.fail(f"{name} is not installed")
    if binary is None:
        pytest.skip(f"{name} is not installed (Debian: apt-get install prometheus)")
    return binary


@contextmanager
def running(binary: str, folder: Path, *words: str) -> Iterator[str]:
    """The URL of such a program on a free loopback port, with its data in ``folder``, once it is ready."""
    address = f"127.0.0.1:{free_port()}"
    command = [binary, *words, f"--web.listen-address={address}", "--log.level=error"]
    process = subprocess.Popen(
        ending_with_us(command), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: _ready(address), f"{binary} is ready")
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(20)


def running_prometheus(folder: Path, config: Path) -> AbstractContextManager[str]:
    """A Prometheus with this configuration."""
    return running(program("prometheus"), folder, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}")


def scraping(folder: Path, server_urls: Sequence[str]) -> Path:
    """A configuration that scrapes these servers every second."""
    targets = [server_url.removeprefix("http://") for server_url in server_urls]
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
        f"scrape_configs: [{{job_name: headway, static_configs: [{{targets: {targets}}}]}}]\n"
    )
    return config


def _ready(address: str) -> bool:
    try:
        return requests.get(f"http://{address}/-/ready", timeout=1).ok
    except requests.RequestException:
        return False
