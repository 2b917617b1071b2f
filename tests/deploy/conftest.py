"""Fixtures of the tests of the set-up and of the deployment files."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

INSTALLED_BY_SETUP = {"hadolint", "promtool", "prometheus", "prometheus-alertmanager", "chromium"}


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """Where a program is; skips where it is not, and fails in CI if the set-up should have installed it."""

    def find(name: str) -> str:
        path = shutil.which(name) or shutil.which(name, path=Path(sys.executable).parent)
        if path is None and os.environ.get("CI") and name in INSTALLED_BY_SETUP:
            pytest.fail(f"{name} is not here, though `make test` installs it")
        if path is None:
            pytest.skip(f"{name} is not installed")
        return path

    return find


def read(path: Path) -> list[Any]:
    """The documents of a file of YAML; Python's own parser takes ten times as long."""
    return list(yaml.load_all(path.read_text(), yaml.CSafeLoader))


class Manifests:
    """The manifests of deploy/kubernetes as they are written, before kustomize puts them together."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def kustomizations(self) -> dict[Path, dict[str, Any]]:
        """Every folder that has a kustomization, and what it says."""
        found = {path.parent: read(path)[0] for path in self.folder.rglob("kustomization.yaml")}
        assert len(found) == 10
        return found

    def resources(self, kind: str = "") -> list[dict[str, Any]]:
        """All resources, or those of one kind."""
        found = [
            one
            for folder, said in self.kustomizations().items()
            for name in said.get("resources", [])
            if (folder / name).is_file()
            for one in read(folder / name)
        ]
        return [one for one in found if kind in ("", one["kind"]) and one["apiVersion"] != "builtin"]

    def resource(self, kind: str, name: str) -> dict[str, Any]:
        """The one of this kind and name."""
        (found,) = [one for one in self.resources(kind) if one["metadata"]["name"] == name]
        return found

    def template(self, name: str) -> dict[str, Any]:
        """Labels and specification of the Pods of a Deployment."""
        found: dict[str, Any] = self.resource("Deployment", name)["spec"]["template"]
        return found

    def container(self, name: str) -> dict[str, Any]:
        """The only container of a Deployment's Pods."""
        (found,) = self.template(name)["spec"]["containers"]
        return dict(found)

    def generated(self) -> dict[str, dict[str, str]]:
        """What the generators put into ConfigMaps, by the name of the ConfigMap; not what is merged into one."""
        made: dict[str, dict[str, str]] = {}
        for folder, said in self.kustomizations().items():
            for one in said.get("configMapGenerator", []):
                if one.get("behavior") != "merge":
                    made[one["name"]] = dict(literal.split("=", 1) for literal in one.get("literals", []))
                    made[one["name"]] |= {name: (folder / name).read_text() for name in one.get("files", [])}
        return made

    def selectors(self) -> Iterator[tuple[str, dict[str, str]]]:
        """What selects Pods by labels: the name of the selecting resource, and the labels."""
        for one in self.resources():
            name, spec = f"{one['kind']} {one['metadata']['name']}", one.get("spec", {})
            if one["kind"] == "Service":
                yield name, spec["selector"]
            elif one["kind"] in ("Deployment", "PodDisruptionBudget"):
                yield name, spec["selector"]["matchLabels"]
            elif one["kind"] == "NetworkPolicy":
                yield name, spec["podSelector"]["matchLabels"]


@pytest.fixture(scope="session")
def manifests(root: Path) -> Manifests:
    """The manifests for Kubernetes."""
    return Manifests(root / "deploy" / "kubernetes")
