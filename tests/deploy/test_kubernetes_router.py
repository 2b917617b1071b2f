"""The router in Kubernetes: it finds the servers by a name, they serve it alone, and its number is the fleet's."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from headway.http.access import TrustedProxies
from headway.operator.metrics import METRIC_NAMES
from headway.router.addresses import read_instances
from headway_tools.cli import route

if TYPE_CHECKING:
    from conftest import Manifests

OVERLAY = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes" / "overlays" / "router"
METRIC = "headway_desired_instances"


@pytest.fixture(scope="module")
def made(tool: Callable[[str], str]) -> list[dict[str, Any]]:
    """All resources of the overlay, as kubectl puts them together."""
    done = subprocess.run([tool("kubectl"), "kustomize", str(OVERLAY)], capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(done.stdout))


def one_of(made: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """The one of this kind and name; a generated name has a hash at its end."""
    (found,) = [one for one in made if one["kind"] == kind and one["metadata"]["name"].startswith(name)]
    return found


def words(manifests: Manifests) -> argparse.Namespace:
    """The router's arguments, as its command reads them."""
    container = manifests.container("headway-router")
    assert container["command"] == ["headway", route.NAME]
    parser = argparse.ArgumentParser()
    route.configure(parser)
    return parser.parse_args(container["args"])


def test_its_instances_are_the_ready_servers(manifests: Manifests) -> None:
    """The name is that of a Service without an address, whose port the servers have; one family of addresses."""
    instances, (name,) = read_instances(words(manifests).instances)
    assert instances == []
    service = manifests.resource("Service", name.host)["spec"]
    assert (service["clusterIP"], service["ipFamilyPolicy"]) == ("None", "SingleStack")
    assert "publishNotReadyAddresses" not in service  # a server that ends is to leave it at once
    assert service["selector"].items() <= manifests.template("headway-server")["metadata"]["labels"].items()
    assert name.port == manifests.container("headway-server")["ports"][0]["containerPort"]


def test_it_listens_where_its_service_and_its_hook_find_it(manifests: Manifests) -> None:
    """And has time to drain."""
    asked, container = words(manifests), manifests.container("headway-router")
    assert (asked.host, [asked.port]) == ("0.0.0.0", [port["containerPort"] for port in container["ports"]])
    hook = dict(word[2:].split("=") for word in container["lifecycle"]["preStop"]["exec"]["command"] if "=" in word)
    assert hook["url"] == f"http://127.0.0.1:{asked.port}"
    grace_s = manifests.template("headway-router")["spec"]["terminationGracePeriodSeconds"]
    assert grace_s >= float(hook["settle"]) + float(hook["at-most"]) + asked.drain + 10


def test_the_fleet_has_one_pair_of_bounds(manifests: Manifests) -> None:
    """The router's number and what follows it have the same bounds."""
    scaled = manifests.resource("ScaledObject", "headway-fleet")["spec"]
    router = manifests.generated()["headway-router"]
    assert router["HEADWAY_SCALE_MIN"] == str(scaled["minReplicaCount"])
    assert router["HEADWAY_SCALE_MAX"] == str(scaled["maxReplicaCount"])
    assert router["HEADWAY_PRESET"] == manifests.generated()["headway-server"]["HEADWAY_PRESET"]


def test_the_number_is_followed_without_another_hold(made: list[dict[str, Any]]) -> None:
    """Up at once, down one at a time: it was held before. One object scales the servers."""
    (scaled,) = [one["spec"] for one in made if one["kind"] == "ScaledObject"]
    assert scaled["scaleTargetRef"] == {"name": "headway-server"}
    assert "replicas" not in one_of(made, "Deployment", "headway-server")["spec"]
    behavior = scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert {each["stabilizationWindowSeconds"] for each in behavior.values()} == {0}
    assert behavior["scaleUp"]["policies"][0]["value"] >= scaled["maxReplicaCount"]
    assert [policy["value"] for policy in behavior["scaleDown"]["policies"]] == [1]


def test_the_monitor_of_the_router_selects_its_service_alone(manifests: Manifests) -> None:
    """In the job of the servers, as often as they."""
    router, server = (manifests.resource("ServiceMonitor", f"headway-{one}")["spec"] for one in ("router", "server"))
    wanted = router["selector"]["matchLabels"]
    services = [one for one in manifests.resources("Service") if wanted.items() <= one["metadata"]["labels"].items()]
    assert [service["metadata"]["name"] for service in services] == ["headway-router"]
    assert services[0]["metadata"]["labels"][router["jobLabel"]] == "headway"
    assert (router["jobLabel"], router["endpoints"]) == (server["jobLabel"], server["endpoints"])


def test_the_number_is_that_of_the_router_alone(
    manifests: Manifests, tool: Callable[[str], str], tmp_path: Path
) -> None:
    """However large those of the servers are; of two routers the larger."""
    (trigger,) = manifests.resource("ScaledObject", "headway-fleet")["spec"]["triggers"]
    assert (trigger["metricType"], trigger["metadata"]["threshold"]) == ("AverageValue", "1")
    assert METRIC in METRIC_NAMES
    series = {
        f'{METRIC}{{job="headway",namespace="default",service="headway-router",pod="a"}}': "2x5",
        f'{METRIC}{{job="headway",namespace="default",service="headway-router",pod="b"}}': "3x5",
        f'{METRIC}{{job="headway",namespace="default",service="headway-server",pod="c"}}': "9x5",
        f'{METRIC}{{job="headway",namespace="other",service="headway-router",pod="e"}}': "9x5",
        f'{METRIC}{{job="other",service="headway-router",pod="d"}}': "9x5",
    }
    at = {"expr": trigger["metadata"]["query"], "eval_time": "2m", "exp_samples": [{"labels": "{}", "value": 3.0}]}
    given = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": "1m", "input_series": given, "promql_expr_test": [at]}
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run([tool("promtool"), "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_keys_are_asked_for_at_the_router(made: list[dict[str, Any]]) -> None:
    """A server has none, and no client reaches it: the router says class and tenant."""
    (router,) = one_of(made, "Deployment", "headway-router")["spec"]["template"]["spec"]["containers"]
    server = one_of(made, "Deployment", "headway-server")["spec"]["template"]["spec"]
    own, asked = (one_of(made, "ConfigMap", name)["data"] for name in ("headway-server", "headway-router"))
    assert {mount["mountPath"] for mount in router["volumeMounts"]} >= {str(Path(asked["HEADWAY_KEYS_FILE"]).parent)}
    assert own["HEADWAY_KEYS_FILE"] == ""
    assert own["HEADWAY_ADMIN_TOKEN_FILE"]
    mounts = {mount["name"] for mount in server["containers"][0]["volumeMounts"]}
    assert mounts == {volume["name"] for volume in server["volumes"]}
    assert "keys" not in mounts
    assert TrustedProxies.from_environment(one_of(made, "ConfigMap", "headway-server")["data"]) != TrustedProxies(())
    policy = one_of(made, "NetworkPolicy", "headway-server")["spec"]
    assert "headway-client" not in str(policy["ingress"])
    assert "'app.kubernetes.io/component': 'router'" in str(policy["ingress"])
    assert "headway-client" in str(one_of(made, "NetworkPolicy", "headway-router")["spec"]["ingress"])


def test_the_dashboard_shows_the_router(made: list[dict[str, Any]]) -> None:
    """And is let through to it."""
    labels = one_of(made, "Deployment", "headway-router")["spec"]["template"]["metadata"]["labels"]
    assert one_of(made, "Service", "headway-watched")["spec"]["selector"] == labels
    assert one_of(made, "Deployment", "headway-dashboard")
    (rule,) = one_of(made, "NetworkPolicy", "headway-dashboard-router")["spec"]["egress"]
    assert rule["to"] == [{"podSelector": {"matchLabels": labels}}]
