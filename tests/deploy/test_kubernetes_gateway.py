"""The servers behind a gateway: the picker finds them, reads their queue, and leaves refusing to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from helm_chart import CUSTOM, Resource, put_together
from published_schemas import VARIABLE, faults, schemas
from vllm_source import found_source

from headway.settings import VARIABLES
from headway.vllm_adapter.waiting_metric import WAITING

if TYPE_CHECKING:
    from conftest import Manifests

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
#: What the picker reads of a vLLM server; a missing one leaves the others as they are.
READ = (WAITING, "vllm:num_requests_running", "vllm:kv_cache_usage_perc", "vllm:lora_requests_info")


@pytest.fixture
def config() -> dict[str, Any]:
    """The picker's own configuration."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / "components/gateway/picker_config.yaml").read_text())
    return found


@pytest.fixture
def made(tool: Callable[[str], str]) -> list[Resource]:
    """All resources of the overlay, as kubectl puts them together."""
    return put_together("overlays/gateway", tool("kubectl"))


def test_the_pool_is_the_servers(manifests: Manifests) -> None:
    """Its labels select the servers alone, its port is theirs, and its picker is the one that runs for it."""
    pool = manifests.resource("InferencePool", "headway")["spec"]
    assert pool["selector"]["matchLabels"] == manifests.template("headway-server")["metadata"]["labels"]
    ports = [port["containerPort"] for port in manifests.container("headway-server")["ports"]]
    assert [port["number"] for port in pool["targetPorts"]] == ports
    picker = manifests.resource("Service", pool["endpointPickerRef"]["name"])["spec"]
    assert pool["endpointPickerRef"]["port"]["number"] in [port["port"] for port in picker["ports"]]
    container = manifests.container("headway-picker")
    words = dict(word.removeprefix("--").split("=") for word in container["args"])
    named = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
    assert (words["pool-name"], words["grpc-port"], words["grpc-health-port"]) == (
        "headway",
        named["grpc"],
        named["health"],
    )
    assert {container[f"{probe}Probe"]["grpc"]["port"] for probe in ("liveness", "readiness")} == {int(named["health"])}


def test_the_picker_has_its_configuration_and_its_rights(manifests: Manifests) -> None:
    """The file is where its argument says, from a generated ConfigMap; it reads Pods and pools and changes nothing."""
    container = manifests.container("headway-picker")
    (file,) = [Path(word.partition("=")[2]) for word in container["args"] if word.startswith("--config-file")]
    (mount,) = container["volumeMounts"]
    assert str(file.parent) == mount["mountPath"]
    (volume,) = manifests.template("headway-picker")["spec"]["volumes"]
    assert file.name in manifests.generated()[volume["configMap"]["name"]]
    assert manifests.template("headway-picker")["spec"]["serviceAccountName"] == "headway-picker"
    rules = manifests.resource("Role", "headway-picker")["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert container["securityContext"] == manifests.container("headway-server")["securityContext"]


def test_what_the_picker_weighs_is_declared(config: dict[str, Any]) -> None:
    """Every reference is to a plug-in of the file, and the queue counts."""
    declared = {plugin["type"] for plugin in config["plugins"]}
    (profile,) = config["schedulingProfiles"]
    weighed = {plugin["pluginRef"] for plugin in profile["plugins"]}
    assert weighed | {config["saturationDetector"]["pluginRef"]} == declared
    assert "queue-scorer" in weighed


def test_a_server_behind_the_picker_shows_its_queue_under_vllms_name(made: list[Resource]) -> None:
    """The setting is one that Headway reads, and vLLM has all the names that the picker asks for."""
    (server,) = [one["data"] for one in made if one["kind"] == "ConfigMap" and "SERVED_MODEL" in one["data"]]
    assert server["HEADWAY_VLLM_WAITING"] == "1"
    assert {name for name in server if name.startswith("HEADWAY_")} <= {
        name for variable in VARIABLES for name in variable.names
    }
    source = found_source()
    if source is None:
        pytest.skip("there is no vLLM")
    text = source.text("vllm.v1.metrics.loggers") or ""
    assert [name for name in READ if f'"{name}"' not in text] == []


def test_the_route_has_the_paths_of_clients_alone(manifests: Manifests) -> None:
    """The admin API is not behind the gateway, and no time limit of the gateway cuts a wait or a stream."""
    (rule,) = manifests.resource("HTTPRoute", "headway")["spec"]["rules"]
    assert [match["path"] for match in rule["matches"]] == [{"type": "PathPrefix", "value": "/v1"}]
    (backend,) = rule["backendRefs"]
    assert manifests.resource(backend["kind"], backend["name"])["apiVersion"].startswith(backend["group"])
    assert set(rule["timeouts"].values()) == {"0s"}
    (parent,) = manifests.resource("HTTPRoute", "headway")["spec"]["parentRefs"]
    assert manifests.resource("Gateway", parent["name"])


def test_gateway_and_picker_reach_what_they_ask(manifests: Manifests) -> None:
    """Both have the label that the policies of server and picker let in."""
    label = {"headway-client": "true"}
    assert label.items() <= manifests.template("headway-picker")["metadata"]["labels"].items()
    assert manifests.resource("Gateway", "headway")["spec"]["infrastructure"]["labels"] == label
    for name in ("headway-server", "headway-picker"):
        policy = manifests.resource("NetworkPolicy", name)["spec"]
        assert {"podSelector": {"matchLabels": label}} in policy["ingress"][0]["from"]


@pytest.mark.skipif(not schemas(), reason=f"{VARIABLE} names no folder with CustomResourceDefinitions")
@pytest.mark.parametrize("folder", ["overlays/gpu", "overlays/router", "overlays/gateway"])
def test_the_published_schemas_accept_every_object(folder: str, tool: Callable[[str], str]) -> None:
    """Pool, route, gateway, monitors, rules and scaled objects, without a field that their projects do not know."""
    ours = [one for one in put_together(folder, tool("kubectl")) if one["apiVersion"].partition("/")[0] in CUSTOM]
    assert ours
    assert {f"{one['kind']} {one['metadata']['name']}": found for one in ours if (found := faults(one))} == {}
    ours[0]["spec"]["unknown"] = True
    assert faults(ours[0])
    del ours[0]["spec"]["unknown"]
