"""The Helm chart rendered by Helm's own engine, and kustomize's manifests, in a form that can be compared."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path
from typing import Any

import helm_python
import kubernetes_validate.utils
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "headway"
KUSTOMIZE = ROOT / "deploy" / "kubernetes"
NAMESPACE = "serving"
KUBERNETES = "1.30"
#: Groups that a bare cluster does not have.
CUSTOM = {"monitoring.coreos.com", "keda.sh", "gateway.networking.k8s.io", "inference.networking.k8s.io"}
#: What Helm's objects have, and kustomize's do not.
HELMS = ("app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart")
LEFT_OUT = (*HELMS, "checksum/config", "namespace")
Resource = dict[str, Any]
# Each check of a resource would read all definitions anew.
kubernetes_validate.utils.schema_contents = functools.cache(kubernetes_validate.utils.schema_contents)


def rendered(values: dict[str, Any] | None = None, *, release: str = "headway") -> list[Resource]:
    """What `helm template` prints: values are checked, and nothing asks a cluster."""
    with helm_python.Chart.load(CHART) as chart:
        chart.validate_schema(values or {})
        files = chart.render(values or {}, name=release, namespace=NAMESPACE)
    return [one for name, text in files.items() if name.endswith(".yaml") for one in _read(text) if one is not None]


@functools.cache
def put_together(folder: str, kubectl: str) -> list[Resource]:
    """What `kubectl kustomize` prints of a folder of deploy/kubernetes."""
    done = subprocess.run([kubectl, "kustomize", str(KUSTOMIZE / folder)], capture_output=True, text=True, check=True)
    return _read(done.stdout)


def _read(text: str) -> list[Resource]:
    return list(yaml.load_all(text, yaml.CSafeLoader))


def accept(resources: list[Resource]) -> None:
    """Raise unless each resource is valid in Kubernetes' own schema, without a field that it does not know."""
    for one in resources:
        if one["apiVersion"].partition("/")[0] not in CUSTOM:
            kubernetes_validate.validate(one, KUBERNETES, strict=True)


def alike(resources: list[Resource]) -> dict[tuple[str, str], Resource]:
    """The resources by kind and name, without hashes in names, Helm's labels and the namespace in queries."""
    return {(one["kind"], one["metadata"]["name"]): one for one in map(_plain, resources)}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _plain(each) for name, each in value.items() if name not in LEFT_OUT}
        return {name: each for name, each in kept.items() if each != {} or name not in ("annotations", "labels")}
    if isinstance(value, list):
        return sorted((_plain(each) for each in value), key=_place)
    if isinstance(value, str):
        own = re.sub(r'job="headway",namespace="\w+"(,service="headway-server")?', 'job="headway"', value)
        return re.sub(r"^(headway-(?:server|dashboard|router|stop))-[0-9a-z]{10}$", r"\1", own)
    return value


def _place(value: Any) -> str:
    """Where a thing with a name comes in a list whose order says nothing; all else keeps its place."""
    return str(value.get("name", "")) if isinstance(value, dict) else ""
