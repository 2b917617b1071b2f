"""The Helm chart: the manifests of kustomize under another tool, with values that are checked."""

from __future__ import annotations

import json
import textwrap
import tomllib
from collections.abc import Callable
from typing import Any

import helm_python
import pytest
import yaml
from helm_chart import CHART, KUBERNETES, KUSTOMIZE, NAMESPACE, ROOT, Resource, accept, alike, put_together, rendered

ON = {"enabled": True}
ROUTER = {"router": ON, "monitoring": ON, "scaling": ON}
GPU = {
    "images": {
        "server": {"repository": "registry.example/headway-server", "tag": "0.1.0-gpu"},
        "dashboard": {"repository": "registry.example/headway-dashboard"},
    },
    "server": {"model": "Qwen/Qwen3-8B", "gpus": 1},
    "cache": {"create": True},
    "monitoring": ON,
    "scaling": ON,
}
IMAGES = {"images": {name: {"repository": f"registry.example/headway-{name}"} for name in ("server", "dashboard")}}


def named(made: list[Resource], kind: str, name: str) -> Resource:
    """The one of this kind and name."""
    (found,) = [one for one in made if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


def container(made: list[Resource], name: str) -> dict[str, Any]:
    """The only container of a Deployment's Pods."""
    (found,) = named(made, "Deployment", name)["spec"]["template"]["spec"]["containers"]
    return dict(found)


@pytest.mark.parametrize(
    ("folder", "values"),
    [("base", {}), ("overlays/gpu", GPU), ("overlays/router", ROUTER | IMAGES)],
    ids=["base", "gpu", "router"],
)
def test_the_chart_makes_what_kustomize_makes(folder: str, values: dict[str, Any], tool: Callable[[str], str]) -> None:
    """The same objects in every field: images, arguments, probes, ports, rights, resources, rules, queries."""
    ours, theirs = alike(rendered(values)), alike(put_together(folder, tool("kubectl")))
    assert ours.keys() == theirs.keys()
    for name, one in ours.items():
        assert one == theirs[name], name


@pytest.mark.parametrize("values", [{}, ROUTER, GPU, {"router": ON, "dashboard": {"enabled": False}}])
def test_kubernetes_accepts_every_object(values: dict[str, Any]) -> None:
    """Each is valid in Kubernetes' own schema, without a field that it does not know."""
    accept(rendered(values | {"tokens": {"admin": "a", "viewer": "b"}, "keys": {"toml": "x = 1"}}))


def test_helm_finds_no_fault() -> None:
    """`helm lint --strict` for that Kubernetes; an icon is no matter."""
    report = helm_python.lint(CHART, strict=True, kube_version=f"v{KUBERNETES}.0")
    assert report["errors"] == []
    assert [one["error"] for one in report["messages"] if "icon" not in one["error"]] == []


def test_two_releases_share_nothing() -> None:
    """No name and no selector of one is the other's, in one namespace; each number is scaled by its own servers."""
    values = ROUTER | {"tokens": {"admin": "a", "viewer": "b"}}
    one, other = (rendered(values, release=name) for name in ("one", "headway-two"))
    assert not alike(one).keys() & alike(other).keys()
    assert "headway-two" not in str(one)
    for made, release in ((one, "one"), (other, "headway-two")):
        text = json.dumps(made)
        labelled = text.count('"app.kubernetes.io/name": "headway"')
        assert labelled == text.count(f'"app.kubernetes.io/instance": "{release}"') > 20
    for values in ({"scaling": ON}, {"scaling": ON, "router": ON}):
        made = rendered(values, release="one")
        (scaled,) = [each["spec"] for each in made if each["kind"] == "ScaledObject"]
        assert named(made, "Deployment", scaled["scaleTargetRef"]["name"])
        for trigger in scaled["triggers"]:
            query = trigger["metadata"]["query"]
            assert (
                query.count("{job=") == query.count(f'namespace="{NAMESPACE}"') == query.count('service="one-headway-')
            )


def test_secrets_are_made_or_named() -> None:
    """Given ones become Secrets and stay out of ConfigMaps; else the Pods name those that exist; none is built in."""
    assert not [one for one in rendered() if one["kind"] == "Secret"]
    given = {"tokens": {"admin": "a-token", "viewer": "v-token"}, "keys": {"toml": "[keys]"}, "hub": {"token": "h"}}
    made = {one["metadata"]["name"]: one["stringData"] for one in rendered(given) if one["kind"] == "Secret"}
    assert made == {
        "headway-tokens": {"admin-token": "a-token", "viewer-token": "v-token"},
        "headway-keys": {"keys.toml": "[keys]"},
        "headway-hub": {"HF_TOKEN": "h"},
    }
    named_ones = {name: {"existingSecret": f"own-{name}"} for name in ("tokens", "keys", "hub")}
    text = json.dumps(rendered(ROUTER | named_ones))
    assert [name for name in made if f'"{name}"' in text] == []
    assert all(f'"own-{name}"' in text for name in named_ones)
    with pytest.raises(helm_python.HelmRenderError, match=r"needs tokens\.viewer"):
        rendered({"tokens": {"admin": "a-token"}})


def test_a_setting_wins_over_a_variable_of_the_manifests() -> None:
    """The others stay."""
    before = named(rendered(), "ConfigMap", "headway-server")["data"]
    made = rendered({"server": {"settings": {"VLLM_CPU_KVCACHE_SPACE": 40, "HEADWAY_AUDIT_FILE": ""}}})
    settings = {"VLLM_CPU_KVCACHE_SPACE": "40", "HEADWAY_AUDIT_FILE": ""}
    assert named(made, "ConfigMap", "headway-server")["data"] == before | settings


def test_a_router_knows_a_fixed_number_of_servers() -> None:
    """Without scaling it is their number, where that is larger than usual."""
    for replicas, most in ((12, "12"), (3, "8"), (None, "8")):
        made = rendered({"router": ON, "server": {"replicas": replicas}})
        assert named(made, "ConfigMap", "headway-router")["data"]["HEADWAY_SCALE_MAX"] == most


def test_a_release_named_like_the_dashboard_keeps_its_policies() -> None:
    """Only that of the dashboard goes with it."""
    made = rendered({"dashboard": {"enabled": False}}, release="llm-dashboard")
    kept = [one["metadata"]["name"] for one in made if one["kind"] == "NetworkPolicy"]
    assert kept
    assert all(name.endswith(("-server", "-metrics", "-router")) for name in kept)


def test_values_reach_the_objects() -> None:
    """Each is where it works: images, flags, settings, resources, Pods, bounds, labels, claims."""
    digest = "sha256:" + "0" * 64
    values = {
        "preset": "latency",
        "images": {"server": {"digest": digest, "pullPolicy": "Always"}},
        "imagePullSecrets": [{"name": "registry"}],
        "server": {
            "model": "m",
            "replicas": 3,
            "args": ["--max-model-len=8192"],
            "settings": {"HEADWAY_VLLM_WAITING": 1, "A_LARGE_NUMBER": 10000000},
            "resources": {"requests": {"cpu": "2"}},
            "pod": {"nodeSelector": {"a": "b"}},
        },
        "cache": {"existingClaim": "weights"},
        "disruption": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "monitoring": {"enabled": True, "rules": False, "labels": {"release": "p"}, "prometheusUrl": "http://p:1"},
    }
    made = rendered(values)
    server, pod = container(made, "headway-server"), named(made, "Deployment", "headway-server")["spec"]["template"]
    assert (server["image"], server["imagePullPolicy"]) == (f"headway-server@{digest}", "Always")
    assert server["args"][-1] == "--max-model-len=8192"
    assert server["resources"]["requests"] == {"cpu": "2", "memory": "16Gi"}
    assert pod["spec"]["nodeSelector"] == {"a": "b"}
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert {"name": "cache", "persistentVolumeClaim": {"claimName": "weights"}} in pod["spec"]["volumes"]
    assert named(made, "Deployment", "headway-server")["spec"]["replicas"] == 3
    settings = {"SERVED_MODEL": "m", "HEADWAY_PRESET": "latency", "HEADWAY_VLLM_WAITING": "1"}
    settings["A_LARGE_NUMBER"] = "10000000"
    usual = named(rendered(), "ConfigMap", "headway-server")["data"]
    assert named(made, "ConfigMap", "headway-server")["data"] == usual | settings
    assert named(made, "ConfigMap", "headway-dashboard")["data"]["HEADWAY_PROMETHEUS_URL"] == "http://p:1"
    kinds = {one["kind"] for one in made}
    assert not kinds & {"PodDisruptionBudget", "NetworkPolicy", "PrometheusRule", "PersistentVolumeClaim", "Secret"}
    assert named(made, "ServiceMonitor", "headway-server")["metadata"]["labels"]["release"] == "p"
    bounded = rendered({"router": ON, "scaling": {"enabled": True, "min": 2, "max": 20}})
    (scaled,) = [one["spec"] for one in bounded if one["kind"] == "ScaledObject"]
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (2, 20)
    assert scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleUp"]["policies"][0]["value"] == 20
    router = named(bounded, "ConfigMap", "headway-router")["data"]
    assert (router["HEADWAY_SCALE_MIN"], router["HEADWAY_SCALE_MAX"]) == ("2", "20")


def test_the_example_of_the_documentation_is_accepted() -> None:
    """Its values are known, and make a GPU server that KEDA scales."""
    text = (ROOT / "deploy/site/docs/how-to/kubernetes.md").read_text()
    block = text.partition("`values.yaml` such as\n\n")[2].partition("\n\n`helm show")[0]
    made = rendered(yaml.safe_load(textwrap.dedent(block)))
    accept(made)
    assert container(made, "headway-server")["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert {"ScaledObject", "PersistentVolumeClaim", "PrometheusRule"} <= {one["kind"] for one in made}


def test_a_changed_setting_restarts_the_pods() -> None:
    """A ConfigMap that is read at the start changes the Pod's annotation, as kustomize's hash does."""

    def annotation(values: dict[str, Any]) -> str:
        template = named(rendered(values), "Deployment", "headway-server")["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    assert annotation({}) == annotation({"dashboard": {"settings": {"A": "b"}}})
    assert annotation({}) != annotation({"preset": "latency"})


@pytest.mark.parametrize(
    "values",
    [
        {"model": "m"},
        {"server": {"gpu": 1}},
        {"server": {"gpus": -1}},
        {"server": {"args": "--x"}},
        {"server": {"pod": {"containers": []}}},
        {"router": {"enabled": "yes"}},
        {"images": {"server": {"digest": "abc"}}},
        {"scaling": {"min": 0}},
        {"server": {"settings": {"HEADWAY_A": ["b"]}}},
    ],
    ids=lambda values: json.dumps(values),
)
def test_values_that_mean_nothing_are_refused(values: dict[str, Any]) -> None:
    """An unknown name, a wrong type or number."""
    with pytest.raises(helm_python.HelmValuesError):
        rendered(values)


def test_every_value_is_in_the_schema_and_has_a_comment() -> None:
    """values.yaml and values.schema.json have the same names."""
    schema = json.loads((CHART / "values.schema.json").read_text())

    def compare(values: dict[str, Any], part: dict[str, Any], path: str) -> None:
        part = schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        assert part["additionalProperties"] is False, path
        assert values.keys() == part["properties"].keys(), path
        for name, value in values.items():
            if isinstance(value, dict) and value:
                compare(value, part["properties"][name], f"{path}.{name}")

    lines = (CHART / "values.yaml").read_text().splitlines()
    compare(yaml.safe_load("\n".join(lines)), schema, "")
    tops = [n for n, line in enumerate(lines) if line and not line.startswith((" ", "#"))]
    bare = {"server:", "dashboard:"}
    assert [lines[n] for n in tops if lines[n] not in bare and not lines[n - 1].startswith("#")] == []


def test_the_chart_has_the_version_of_the_product() -> None:
    """Version and appVersion, which is the tag of the images."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_a_package_of_the_chart_stands_alone(tmp_path: Any) -> None:
    """`helm package` puts the manifests in, in place of the link to them; the rendered objects are the same."""
    assert (CHART / "manifests").resolve() == KUSTOMIZE
    archive = helm_python.package(CHART, destination=tmp_path)
    with helm_python.Chart.load(archive) as packed, helm_python.Chart.load(CHART) as chart:
        assert packed.render(ROUTER, name="headway") == chart.render(ROUTER, name="headway")
        assert [one["name"] for one in packed.files if one["name"].endswith(("rule.py", ".pyc"))] == []
