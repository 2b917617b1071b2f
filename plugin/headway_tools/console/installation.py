"""How Headway was installed, for the command that adds one of its extras."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from headway.release import DISTRIBUTION


def install_command(*extras: str) -> str:
    """The shell command that adds extras from the checkout, file, repository or index that Headway came from.

    A checkout or a file that is gone is replaced by the packages of the extras.
    """
    return f"{_install()} {_target(','.join(extras))}"


def _install() -> str:
    """A command that installs into this Python: its own pip, or uv, or the pip that Python brings along."""
    python = shlex.quote(sys.executable)
    if any(metadata.distributions(name="pip")):  # to look for the module would replace distutils in this process
        its_pip = str(Path(sys.executable).with_name("pip"))
        return "pip install" if shutil.which("pip") == its_pip else f"{python} -m pip install"
    if shutil.which("uv"):
        return f"uv pip install --python {python}"
    return f"{python} -m ensurepip && {python} -m pip install"


def _target(extras: str) -> str:
    source = _source()
    named, url = f"{DISTRIBUTION}[{extras}]", source.get("url", "")
    if vcs := source.get("vcs_info"):
        return shlex.quote(f"{named} @ {vcs['vcs']}+{url}@{vcs['commit_id']}")
    if not url.startswith("file:"):
        return shlex.quote(f"{named} @ {url}" if url else named)
    path = unquote(urlsplit(url).path)
    if not Path(path).exists():
        return shlex.join(_packages(extras.split(",")))
    editable = "-e " if source.get("dir_info", {}).get("editable") else ""
    return editable + shlex.quote(f"{path}[{extras}]")


def _source() -> dict[str, Any]:
    """The source that the installer wrote down (PEP 610); nothing for an index."""
    try:
        text = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return {}
    source: dict[str, Any] = json.loads(text or "{}")
    return source


def _packages(extras: list[str]) -> list[str]:
    """The requirements of the extras; an extra may name others."""
    found = list[str]()
    for line in metadata.requires(DISTRIBUTION) or ():
        requirement, _, marker = line.partition(";")
        if not set(re.findall(r"extra == ['\"]([\w-]+)['\"]", marker)) & set(extras):
            continue
        others = re.match(rf"{DISTRIBUTION}\[(.*)\]", requirement)
        found += _packages(others[1].split(",")) if others else [requirement.strip()]
    return found
