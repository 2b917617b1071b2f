"""The manifests against themselves and against the product: names, labels, ports, paths, flags, variables, time."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import environment
import pytest
from helm_chart import accept, put_together

from headway.api.routes import HEALTHZ, READYZ
from headway.settings import VARIABLES
from headway_tools.cli import dashboard as dashboard_command
from headway_tools.console.serve_flags import split

if TYPE_CHECKING:
    from conftest import Manifests

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
#: What how-to/kubernetes.md tells the operator to make, with the keys; headway-hub may be missing.
SECRETS = {
    "headway-tokens": {"admin-token", "viewer-token"},
    "headway-keys": {"keys.toml"},
    "headway-hub": {"HF_TOKEN"},
}
DEPLOYMENTS = ("headway-server", "headway-dashboard", "headway-router")
USER = 10001
REFERENCE = re.compile(r"\$\((\w+)\)")


def seconds(manifests: Manifests, name: str) -> float:
    """A flag of the hook before the end of a server."""
    words = manifests.container("headway-server")["lifecycle"]["preStop"]["exec"]["command"]
    (word,) = [word for word in words if word.startswith(f"--{name}=")]
    return float(word.partition("=")[2])


def test_every_file_is_part_of_a_kustomization(manifests: Manifests) -> None:
    """Named files exist, and no manifest is left out by mistake."""
    named = set()
    for folder, said in manifests.kustomizations().items():
        words = [*said.get("resources", []), *said.get("components", []), *said.get("transformers", [])]
        words += [patch["path"] for patch in said.get("patches", []) if "path" in patch]
        words += [name for one in said.get("configMapGenerator", []) for name in one.get("files", [])]
        assert [word for word in words if not (folder / word).exists()] == []
        named |= {(folder / word).resolve() for word in words} | {folder / "kustomization.yaml"}
    assert set(FOLDER.rglob("*.yaml")) - named == set()


@pytest.mark.parametrize("folder", ["base", "overlays/gpu", "overlays/router", "overlays/gateway"])
def test_kustomize_puts_them_together(folder: str, tool: Callable[[str], str]) -> None:
    """kubectl's own kustomize, without a cluster: one valid resource of each name, all images with a tag."""
    made = put_together(folder, tool("kubectl"))
    accept(made)
    names = [(one["kind"], one["metadata"]["name"]) for one in made]
    assert len(set(names)) == len(names)
    namespace = None if folder == "base" else "headway"
    assert {one["metadata"].get("namespace") for one in made} == {namespace}
    triggers = [trigger for one in made if one["kind"] == "ScaledObject" for trigger in one["spec"]["triggers"]]
    for query in (trigger["metadata"]["query"] for trigger in triggers):
        assert query.count("headway_") == query.count(f'{{job="headway",namespace="{namespace}"')
    pods = [one["spec"]["template"]["spec"] for one in made if one["kind"] == "Deployment"]
    images = [each["image"] for pod in pods for each in pod["containers"]]
    assert len(images) == (3 if folder in ("overlays/router", "overlays/gateway") else 2)
    assert [image for image in images if not re.search(r":v?\d+\.\d+\.\d+(-gpu)?$", image)] == []
    if folder == "overlays/gpu":
        (server,) = [one for one in made if one["kind"] == "Deployment" and one["metadata"]["name"] == DEPLOYMENTS[0]]
        assert "replicas" not in server["spec"]
        (cache,) = [one for one in server["spec"]["template"]["spec"]["volumes"] if one["name"] == "cache"]
        assert cache == {"name": "cache", "persistentVolumeClaim": {"claimName": "headway-cache"}}


def test_every_selector_finds_the_pods_of_one_deployment(manifests: Manifests) -> None:
    """Its labels are among those of exactly one Pod template."""
    found = dict(manifests.selectors())
    assert len(found) == 16
    for name, labels in found.items():
        chosen = [
            one
            for one in (*DEPLOYMENTS, "headway-picker")
            if labels.items() <= manifests.template(one)["metadata"]["labels"].items()
        ]
        assert len(chosen) == 1, name


def test_every_port_has_a_name_that_the_pods_know(manifests: Manifests) -> None:
    """Services and probes name ports; the numbers are those that server and dashboard listen on."""
    for service in manifests.resources("Service"):
        for port in service["spec"]["ports"]:
            (pod,) = [
                deployment
                for deployment in (*DEPLOYMENTS, "headway-picker")
                if service["spec"]["selector"].items() <= manifests.template(deployment)["metadata"]["labels"].items()
            ]
            named = {one["name"]: one["containerPort"] for one in manifests.container(pod)["ports"]}
            assert named[port["targetPort"]] == port["port"]
    assert manifests.container("headway-dashboard")["ports"][0]["containerPort"] == dashboard_command.PORT
    server = manifests.container("headway-server")
    assert f"--port={server['ports'][0]['containerPort']}" in server["args"]


def test_the_probes_ask_paths_that_exist(manifests: Manifests) -> None:
    """Liveness asks for the process, readiness for the readiness; the start has time to load a model."""
    kinds = ("startupProbe", "livenessProbe", "readinessProbe")
    probes = {one: {kind: manifests.container(one)[kind]["httpGet"] for kind in kinds} for one in DEPLOYMENTS}
    assert {probe["port"] for each in probes.values() for probe in each.values()} == {"http"}
    server = {name: probe["path"] for name, probe in probes["headway-server"].items()}
    assert server == {"startupProbe": HEALTHZ.path, "livenessProbe": HEALTHZ.path, "readinessProbe": READYZ.path}
    assert {probe["path"] for probe in probes["headway-dashboard"].values()} == {"/_stcore/health"}
    start = manifests.container("headway-server")["startupProbe"]
    allowed_s = start["failureThreshold"] * start["periodSeconds"]
    assert allowed_s >= 1800
    assert manifests.resource("Deployment", "headway-server")["spec"]["progressDeadlineSeconds"] > allowed_s


def test_a_server_has_time_to_drain(manifests: Manifests) -> None:
    """The grace period holds the hook and vLLM's own time-out, and a new server comes before an old one goes."""
    (drain,) = [word for word in manifests.container("headway-server")["args"] if word.startswith("--shutdown-timeout")]
    grace_s = manifests.template("headway-server")["spec"]["terminationGracePeriodSeconds"]
    assert grace_s >= seconds(manifests, "settle") + seconds(manifests, "at-most") + float(drain.partition("=")[2]) + 10
    assert manifests.resource("Deployment", "headway-server")["spec"]["strategy"]["rollingUpdate"] == {
        "maxSurge": 1,
        "maxUnavailable": 0,
    }
    assert manifests.resource("PodDisruptionBudget", "headway-server")["spec"]["maxUnavailable"] == 1


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_every_container_gives_up_its_rights(manifests: Manifests, name: str) -> None:
    """No root, no capability, no way to gain one, a root file system that is only read, and limits."""
    pod, one = manifests.template(name)["spec"], manifests.container(name)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == USER
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert one["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "memory" in one["resources"]["limits"]
    image = FOLDER.parent / f"Dockerfile.{one['image'].removeprefix('headway-')}"
    assert f"--uid {USER}" in image.read_text()


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_what_is_mounted_exists(manifests: Manifests, name: str) -> None:
    """Every mount has its volume and every volume a mount; Secrets and ConfigMaps are generated or documented."""
    pod, one = manifests.template(name)["spec"], manifests.container(name)
    assert sorted(mount["name"] for mount in one["volumeMounts"]) == sorted(each["name"] for each in pod["volumes"])
    readme = (FOLDER.parent / "site/docs/how-to/kubernetes.md").read_text()
    secrets = [each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each]
    secrets += [each["secretRef"]["name"] for each in one["envFrom"] if "secretRef" in each]
    assert set(secrets) <= SECRETS.keys()
    assert [secret for secret in secrets if f"create secret generic {secret}" not in readme] == []
    maps = [each["configMap"]["name"] for each in pod["volumes"] if "configMap" in each]
    maps += [each["configMapRef"]["name"] for each in one["envFrom"] if "configMapRef" in each]
    assert set(maps) <= manifests.generated().keys()


def test_the_files_that_variables_name_are_mounted(manifests: Manifests) -> None:
    """Each is in a mounted folder, and a Secret has a key of its name."""
    for name in DEPLOYMENTS:
        mounts = {mount["mountPath"]: mount["name"] for mount in manifests.container(name)["volumeMounts"]}
        volumes = {each["name"]: each for each in manifests.template(name)["spec"]["volumes"]}
        files = [Path(value) for key, value in manifests.generated()[name].items() if key.endswith("_FILE")]
        assert files
        for file in files:
            volume = volumes[mounts[str(file.parent)]]
            if "secret" in volume:
                assert file.name in SECRETS[volume["secret"]["secretName"]]
            else:
                assert "emptyDir" in volume


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_nothing_wins_over_the_config_map(manifests: Manifests, name: str) -> None:
    """A variable of the container would: what a user writes into the ConfigMap would have no effect."""
    one = manifests.container(name)
    assert "env" not in one
    assert one["envFrom"][0] == {"configMapRef": {"name": name}}


def test_every_variable_is_known(manifests: Manifests) -> None:
    """A name with Headway's prefix that nothing reads has no effect; service links would add some."""
    given = {name for made in manifests.generated().values() for name in made}
    for name in DEPLOYMENTS:
        assert manifests.template(name)["spec"]["enableServiceLinks"] is False
    ours = {name for name in given if name.startswith("HEADWAY_")}
    assert ours
    assert ours <= {name for variable in VARIABLES for name in variable.names}
    referred = {found for word in manifests.container("headway-server")["args"] for found in REFERENCE.findall(word)}
    assert referred == {"SERVED_MODEL"}
    assert referred <= manifests.generated()["headway-server"].keys()


def test_the_servers_words_are_understood(manifests: Manifests) -> None:
    """`headway serve` takes the command, and what is left for vLLM are flags that Compose passes, too."""
    words = split([REFERENCE.sub("some/model", word) for word in manifests.container("headway-server")["args"]])
    flags = {word.partition("=")[0] for word in words.engine if word.startswith("--")}
    assert flags == {"--host", "--port", "--shutdown-timeout"}


def test_the_dashboard_asks_a_service_that_shows_unready_servers(manifests: Manifests) -> None:
    """A paused server has no ready address, and is the one to look at; the dashboard has a viewer's token only."""
    url = manifests.generated()["headway-dashboard"]["HEADWAY_URL"]
    service = manifests.resource("Service", url.removeprefix("http://").partition(":")[0])
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["sessionAffinity"] == "ClientIP"
    (tokens,) = [one for one in manifests.template("headway-dashboard")["spec"]["volumes"] if one["name"] == "tokens"]
    assert [item["key"] for item in tokens["secret"]["items"]] == ["viewer-token"]


def test_images_have_the_version_of_the_product_and_the_engine(manifests: Manifests, root: Path) -> None:
    """One version; the comment on the GPU image names the vLLM that is tested."""
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    images = [image for said in manifests.kustomizations().values() for image in said.get("images", [])]
    ours = [image for image in images if image["name"].startswith("headway-")]
    assert {image["name"] for image in ours} == {manifests.container(name)["image"] for name in DEPLOYMENTS}
    assert {image["newTag"].removesuffix("-gpu") for image in ours} == {version}
    overlay = (FOLDER / "overlays" / "gpu" / "kustomization.yaml").read_text()
    assert re.findall(r"vllm/vllm-openai:v([\d.]+)\.", overlay) == [environment.ENGINE_VERSION]


def test_the_api_groups_are_served_versions(manifests: Manifests) -> None:
    """The versions that Kubernetes, the Prometheus operator, KEDA and the Gateway API serve."""
    assert {(one["apiVersion"], one["kind"]) for one in manifests.resources()} == {
        ("apps/v1", "Deployment"),
        ("v1", "Service"),
        ("v1", "PersistentVolumeClaim"),
        ("policy/v1", "PodDisruptionBudget"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("monitoring.coreos.com/v1", "ServiceMonitor"),
        ("monitoring.coreos.com/v1", "PrometheusRule"),
        ("keda.sh/v1alpha1", "ScaledObject"),
        ("gateway.networking.k8s.io/v1", "Gateway"),
        ("gateway.networking.k8s.io/v1", "HTTPRoute"),
        ("inference.networking.k8s.io/v1", "InferencePool"),
        ("rbac.authorization.k8s.io/v1", "Role"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        ("v1", "ServiceAccount"),
    }
