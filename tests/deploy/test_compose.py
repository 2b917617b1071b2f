from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import environment
import pytest
import yaml
from handler_server import Answer, answering

from headway.router.addresses import read_addresses
from headway_tools.cli import dashboard as dashboard_command
from headway_tools.cli import route as route_command
from headway_tools.console.parser import Parser
from headway_tools.console.serve_flags import split

VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
USERS = {"HEADWAY_MODEL": "some/model", "HEADWAY_ADMIN_TOKEN_FILE": "/etc/headway/admin-token"}


def load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def filled(text: str) -> str:
    """The text with its variables as Compose fills them in: the user's value, else the default."""
    return VARIABLE.sub(lambda found: USERS.get(found[1], found[3] if found[2] == "-" else ""), text)


@pytest.fixture(scope="module")
def deploy(root: Path) -> Path:
    return root / "deploy"


@pytest.fixture(scope="module")
def services(deploy: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = load(deploy / "compose.yaml")["services"]
    return found


def test_nothing_is_published_beyond_this_machine(services: dict[str, dict[str, Any]]) -> None:
    """Every port is on the loopback address; a proxy is the operator's choice."""
    ports = [port for service in services.values() for port in service["ports"]]
    assert len(ports) == 5
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_there_is_no_default_token_and_no_default_model(deploy: Path) -> None:
    """Both must be named, as the clients' keys must be, and the message says how."""
    text = (deploy / "compose.yaml").read_text()
    required = {name for name, kind, _ in VARIABLE.findall(text) if kind == "?"}
    assert required == {"HEADWAY_MODEL", "HEADWAY_ADMIN_TOKEN_FILE", "HEADWAY_KEYS"}
    assert "HEADWAY_ADMIN_TOKEN:" not in text


def test_every_container_gives_up_its_rights(services: dict[str, dict[str, Any]]) -> None:
    """No capability, no new privilege, a health check; read-only where nothing is compiled."""
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert ("healthcheck" in service) is ("build" not in service)  # in the image's file
        assert service.get("read_only", False) is (name != "server")


def test_the_servers_words_are_understood(services: dict[str, dict[str, Any]]) -> None:
    """`headway serve` takes its part of the command, and vLLM knows the rest."""
    words = split([filled(word) for word in services["server"]["command"]])
    assert words.preset == "balanced"
    flags = {word.partition("=")[0] for word in words.engine if word.startswith("--")}
    assert flags == {"--host", "--port", "--shutdown-timeout"}
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        pytest.skip("vLLM is not installed")
    assert '"--shutdown-timeout"' in (Path(spec.origin).parent / "engine" / "arg_utils.py").read_text()


def test_the_server_has_time_to_drain(services: dict[str, dict[str, Any]]) -> None:
    """Docker waits longer than vLLM may take."""
    (drain,) = [word for word in services["server"]["command"] if word.startswith("--shutdown-timeout")]
    assert int(services["server"]["stop_grace_period"].rstrip("s")) > int(drain.partition("=")[2])


def test_every_variable_is_read_by_some_part(root: Path, services: dict[str, dict[str, Any]]) -> None:
    """A HEADWAY_ variable that no code reads is a setting that does nothing."""
    sources = "".join(path.read_text() for folder in ("plugin", "dashboard") for path in (root / folder).rglob("*.py"))
    used = {name for service in services.values() for name in service.get("environment", {}) if "HEADWAY" in name}
    stems = {name: name.removesuffix("_FILE") for name in used}
    assert {name for name, stem in stems.items() if name not in sources and stem not in sources} == set()


def test_the_parts_find_each_other(deploy: Path, services: dict[str, dict[str, Any]]) -> None:
    """The names and ports that one part looks for are those that the other has."""
    published = {name: {port.split(":")[-1] for port in service["ports"]} for name, service in services.items()}
    urls = [url for url in services["dashboard"]["environment"].values() if url.startswith("http")]
    files = [deploy / "prometheus" / name for name in ("targets.compose.yml", "alertmanagers.compose.yml")]
    targets = [f"http://{target}" for file in files for target in load(file)[0]["targets"]]
    for url in urls + targets:
        host, port = url.removeprefix("http://").split(":")
        assert port in published[host]
    assert "--port=8000" in services["server"]["command"]
    assert published["dashboard"] == {str(dashboard_command.PORT)}


def test_grafana_loads_the_board_from_where_it_is_mounted(deploy: Path, services: dict[str, dict[str, Any]]) -> None:
    """Data source, folder and first page are those of the mounts; nobody needs a password, and nobody may edit."""
    grafana = services["grafana"]
    assert grafana["profiles"] == ["grafana"]
    mounts = {volume.split(":")[1]: volume.split(":")[0] for volume in grafana["volumes"]}
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert mounts[home] == "./grafana/headway.json"
    provisioning = deploy / mounts["/etc/grafana/provisioning"].removeprefix("./")
    (provider,) = load(provisioning / "dashboards" / "headway.yml")["providers"]
    assert provider["options"]["path"] == str(Path(home).parent)
    (source,) = load(provisioning / "datasources" / "prometheus.yml")["datasources"]
    host, port = source["url"].removeprefix("http://").split(":")
    assert port in {published.split(":")[-1] for published in services[host]["ports"]}
    interval = load(deploy / "prometheus" / "prometheus.yml")["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == interval
    rights = {name: value for name, value in grafana["environment"].items() if name.startswith("GF_AUTH")}
    assert rights == {
        "GF_AUTH_ANONYMOUS_ENABLED": "true",
        "GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer",
        "GF_AUTH_BASIC_ENABLED": "false",
        "GF_AUTH_DISABLE_LOGIN_FORM": "true",
    }


def test_every_mounted_and_built_file_exists(root: Path, deploy: Path, services: dict[str, dict[str, Any]]) -> None:
    """Paths are relative to the folder of the Compose file; the build's context is the repository."""
    mounted = [filled(volume).split(":")[0] for service in services.values() for volume in service.get("volumes", [])]
    assert [path for path in mounted if path.startswith(".") and not (deploy / path).exists()] == []
    for service in services.values():
        if "build" in service:
            assert (deploy / service["build"]["context"]).resolve() == root
            assert (root / service["build"]["dockerfile"]).exists()
    allowed = [line[1:] for line in (root / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert [path for path in allowed if not (root / path).exists()] == []


def test_the_images_are_of_the_engine_that_is_tested(deploy: Path) -> None:
    """One version of vLLM in the set-up, in the Compose files and in the image's file."""
    for name in ("compose.yaml", "compose.gpu.yaml", "compose.fleet.yaml", "Dockerfile.server"):
        tags = re.findall(r"vllm/vllm-openai(?:-cpu)?:v(\d+\.\d+\.\d+)", (deploy / name).read_text())
        assert tags
        assert set(tags) == {environment.ENGINE_VERSION}


def test_every_image_has_a_version(deploy: Path, services: dict[str, dict[str, Any]]) -> None:
    """A tag that names a release, in the Compose file and in every stage of the images; none runs as root."""
    images = [service["image"] for service in services.values() if "image" in service]
    assert len(images) == 3
    for name in ("Dockerfile.server", "Dockerfile.dashboard"):
        text = (deploy / name).read_text()
        given = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
        assert set(re.findall(r"^FROM \$\{(\w+)\}", text, re.MULTILINE)) == set(given)
        assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["10001"]
        images += given.values()
    assert [image for image in images if not re.search(r":v?\d+\.\d+\.\d+(-[\w-]+)?$", image)] == []


@pytest.mark.parametrize("name", ["server", "dashboard"])
def test_hadolint_finds_no_fault_in_the_images_files(name: str, deploy: Path, tool: Callable[[str], str]) -> None:
    """Not even in style."""
    words = [tool("hadolint"), "--failure-threshold=style", deploy / f"Dockerfile.{name}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_every_variable_of_the_user_is_described(deploy: Path) -> None:
    """Variables that Compose reads are in how-to/compose.md."""
    readme = (deploy / "site/docs/how-to/compose.md").read_text()
    text = "".join((deploy / name).read_text() for name in ("compose.yaml", "compose.gpu.yaml"))
    names = {name for name, _, _ in VARIABLE.findall(text)}
    assert {name for name in names if f"{name}=" not in readme and f"`{name}`" not in readme} == set()


def test_the_alertmanager_has_its_file_where_it_looks(services: dict[str, dict[str, Any]], deploy: Path) -> None:
    """Mounted where the flag says; every route has its receiver, and a server that is down hides its other alerts."""
    service = services["alertmanager"]
    file, path, _ = filled(service["volumes"][0]).split(":")
    assert f"--config.file={path}" in service["command"]
    config = load(deploy / file)
    assert config["route"]["receiver"] in {receiver["name"] for receiver in config["receivers"]}
    rules = (deploy / "prometheus" / "rules.yml").read_text()
    named = {
        found for rule in config["inhibit_rules"] for found in re.findall(r'"(\w+)"', str(rule["source_matchers"]))
    }
    assert named
    assert [name for name in named if f"alert: {name}\n" not in rules] == []


def test_amtool_accepts_the_alertmanagers_file(deploy: Path, tool: Callable[[str], str]) -> None:
    """Alertmanager's own check."""
    file = deploy / "prometheus" / "alertmanager.yml"
    done = subprocess.run([tool("amtool"), "check-config", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_gpu_file_only_adds(deploy: Path, services: dict[str, dict[str, Any]]) -> None:
    """The file names no service that the first file does not have, and no other key than image and devices."""
    added = load(deploy / "compose.gpu.yaml")["services"]
    assert set(added) <= set(services)
    assert set(added["server"]) == {"build", "deploy"}


def test_the_fleet_is_two_servers_behind_a_router_in_place_of_the_server(
    deploy: Path, services: dict[str, dict[str, Any]]
) -> None:
    """Only the router is published; it names the instances as they are, and they trust its network."""
    fleet = load(deploy / "compose.fleet.yaml")
    added = fleet["services"]
    instances = {name: one for name, one in added.items() if name != "server"}
    assert set(added["server"]) == {"entrypoint", "command", "networks"}
    parser = Parser(prog="headway route")
    route_command.configure(parser)
    assert added["server"]["entrypoint"] == ["headway", "route"]
    words = parser.parse_args([filled(word) for word in added["server"]["command"]])
    assert (words.host, words.port, words.preset) == ("0.0.0.0", 8000, "balanced")
    addresses = read_addresses(words.instances)
    assert [address.name for address in addresses] == [f"{name}:8000" for name in instances]
    (network,) = fleet["networks"]["instances"]["ipam"]["config"]
    own = services["server"]
    for instance in instances.values():
        assert instance["networks"] == ["instances"]
        assert instance["environment"]["HEADWAY_TRUSTED_PROXIES"] == network["subnet"]
        same = ("build", "command", "shm_size", "init", "cap_drop", "security_opt", "stop_grace_period")
        assert {name: instance[name] for name in same} == {name: own[name] for name in same}
        assert "ports" not in instance


def test_the_images_start_commands_that_exist(deploy: Path) -> None:
    """The entry points are Headway's own commands, with flags they have."""
    assert 'ENTRYPOINT ["headway", "serve"]' in (deploy / "Dockerfile.server").read_text()
    entry = re.search(r"ENTRYPOINT (\[.*\])", (deploy / "Dockerfile.dashboard").read_text())
    assert entry is not None
    words = yaml.safe_load(entry[1])
    parser = Parser(prog="headway dashboard")
    dashboard_command.configure(parser)
    assert words[:2] == ["headway", "dashboard"]
    assert parser.parse_args(words[2:]).host == "0.0.0.0"


@pytest.mark.parametrize("name", ["server", "dashboard"])
def test_the_health_checks_distinguish_ready_from_not_ready(name: str, deploy: Path) -> None:
    """The very command of the image's file, against an answer of 200 and one of 503."""
    healthy = ("/headway/readyz", "/_stcore/health")
    command = re.search(
        r"^HEALTHCHECK .*\\\n +CMD (\[.*\])$", (deploy / f"Dockerfile.{name}").read_text(), re.MULTILINE
    )
    assert command is not None
    program, *words = yaml.safe_load(command[1])
    assert program == "python3"
    with answering(lambda request: Answer(200 if request.path in healthy else 503)) as url:
        here = re.sub(r"http://127\.0\.0\.1:\d+", url, words[1])
        unready = here.replace("/headway/readyz", "/x").replace("/_stcore/health", "/x")
        codes = [
            subprocess.run([sys.executable, words[0], code], capture_output=True, check=False).returncode
            for code in (here, unready)
        ]
    assert codes == [0, 1]
