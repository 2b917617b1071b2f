"""Tests of the documents: what they name exists, and what exists is named where a user would look for it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from running_server import ROOT
from starlette.routing import Route
from vllm_source import VllmSource

from headway.cli import main
from headway.http.admin.handlers import routes
from headway.http.admin.tokens import Tokens
from headway.http.inference.timeouts import FIRST_TOKEN, QUEUE, STALL, TOTAL
from headway.operator.metrics import METRIC_NAMES
from headway_policies import Outcome, bundled_presets, conformance, parse_preset

FOLDERS = [*ROOT.glob("[!.]*/README.md"), *ROOT.glob("plugin/*/README.md"), *ROOT.glob("plugin/docs/*.md")]
DOCUMENTS = sorted(path.relative_to(ROOT) for path in [*ROOT.glob("*.md"), *FOLDERS])
SOURCES = [one for folder in ("plugin/headway", "policies", "dashboard") for one in ROOT.glob(f"{folder}/**/*.py")]


def _read(path: str | Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _never() -> None:
    raise AssertionError("no route is called here")


def test_the_readme_names_every_metric_and_no_other() -> None:
    """The list of metrics in README.md is the table of instruments."""
    assert set(re.findall(r"`(headway_[a-z_]+)`", _read("README.md"))) == set(METRIC_NAMES)


def test_the_readme_shows_the_presets_as_they_are() -> None:
    """Name, seats and batching strategy of each bundled preset stand in README.md."""
    rows = re.findall(r"^\| `([a-z-]+)` \| (\d+) \| (static|dynamic|continuous) \|", _read("README.md"), re.MULTILINE)
    presets = bundled_presets().values()
    expected = {(one.name, str(one.batching.seats), one.batching.strategy) for one in presets}
    assert set(rows) == expected


def test_every_route_is_documented_and_every_documented_route_exists() -> None:
    """The table of routes in plugin/README.md is the table in the code."""
    named = set(re.findall(r"`(GET|PUT|POST) (/headway/[a-z0-9/.]+)`", _read("plugin/README.md")))
    real = {
        (method, route.path)
        for route in routes(_never, Tokens({}))  # type: ignore[arg-type]  # never called
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    }
    assert named == real


def test_every_variable_is_documented_and_every_documented_variable_is_read() -> None:
    """HEADWAY_* variables of the code and of the READMEs are the same."""
    pattern = r"\bHEADWAY_[A-Z][A-Z_]*[A-Z]\b"
    code = {name for path in SOURCES for name in re.findall(pattern, path.read_text(encoding="utf-8"))}
    read = {name.removesuffix("_FILE") for name in code}
    documents = " ".join(_read(path) for path in DOCUMENTS)
    named = {name.removesuffix("_FILE") for name in re.findall(pattern, documents)}
    compose_only = {"HEADWAY_MODEL"}
    assert named - compose_only == read


def test_every_outcome_has_its_word_in_the_glossary() -> None:
    """Each way a request can end is a word of the glossary."""
    (row,) = re.findall(r"^\| outcome \|(.*)\|$", _read("README.md"), re.MULTILINE)
    assert {outcome.value.split("_")[0] for outcome in Outcome} - {"engine"} <= set(re.findall(r"\w+", row))


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_links_lead_somewhere(document: Path) -> None:
    """Every relative link and picture of a document exists."""
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", _read(document))
    missing = [target for target in targets if not (ROOT / document.parent / target).exists()]
    assert missing == []


def test_the_examples_of_the_policies_work() -> None:
    """The Python example of policies/README.md runs, and its TOML example is a valid preset."""
    text = _read("policies/README.md")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(example, "policies/README.md", "exec"), {})
    (preset,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert parse_preset(preset, "policies/README.md").name == "night"


@pytest.mark.parametrize(
    ("name", "check", "protocol"),
    [
        ("LeastSlack", conformance.check_order, "Order"),
        ("ShortestFirst", conformance.check_discipline, "Discipline"),
        ("Headroom", conformance.check_limit_policy, "LimitPolicy"),
        ("HalfFull", conformance.check_window, "Window"),
    ],
)
def test_the_custom_policies_of_the_readme_conform(name: str, check: Callable[[type], None], protocol: str) -> None:
    """One of each kind runs as printed, passes its suite, and is the class of plugin/examples, annotations apart."""
    text = _read("policies/README.md")
    (example,) = [block for block in re.findall(r"```py\n(.*?)```", text, re.DOTALL) if f"class {name}" in block]
    names: dict[str, type] = {"__name__": "example"}  # type: ignore[dict-item]  # as a module has it
    exec(compile(example, "policies/README.md", "exec"), names)
    check(names[name])
    assert re.search(rf"^\| `[a-z.]+` \| `{protocol}` \|.* `{check.__name__}\(Class\)` \|$", text, re.MULTILINE)
    assert _statements(example, name) == _statements(_read("plugin/examples/own_policies.py"), name)


def _statements(source: str, class_name: str) -> list[str]:
    """The methods of a class as (name, body), without their annotations."""
    (one,) = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == class_name]
    found = []
    for node in ast.walk(one):
        if isinstance(node, ast.FunctionDef):
            body = "\n".join(ast.unparse(line) for line in node.body)
            found.append(f"{node.name}: " + re.sub(r"^(self\.\w+): [^=]+ = ", r"\1 = ", body, flags=re.MULTILINE))
    return found


def test_the_batcher_example_works(capsys: pytest.CaptureFixture[str]) -> None:
    """The example of batches without vLLM in plugin/README.md runs as it stands there."""
    (example,) = re.findall(r"```py\n(.*?)```", _read("plugin/README.md"), re.DOTALL)
    exec(compile(example, "plugin/README.md", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out == "[[3.0], [5.0], [9.0]] [3.0] 4\n42\n"


def test_the_examples_of_porting_a_batcher_work(capsys: pytest.CaptureFixture[str]) -> None:
    """Every Python block of the page runs, in its order, and prints what it says it does."""
    page = "plugin/docs/porting-a-batcher.md"
    for example in re.findall(r"```python\n(.*?)```", _read(page), re.DOTALL):
        exec(compile(example, page, "exec"), {"__name__": "example"})
    assert capsys.readouterr().out.splitlines() == [
        "['ONE', 'TWO', 'THREE'] 1",
        "request-1: 14 characters",
        "1.0",
        "['a question', 'of some class'] 1",
        "32 aimd",
    ]


def test_every_time_out_header_is_documented() -> None:
    """The table of time-out headers in plugin/README.md is the one in the code, stage by stage."""
    rows = re.findall(r"^\| (?:in the queue|to the first token|between tokens|in all) \| (.*) \|$",
                      _read("plugin/README.md"), re.MULTILINE)  # fmt: skip
    documented = [re.findall(r"`([a-z-]{6,})`", row) for row in rows]
    assert documented == [[name for name, _ in readers] for readers in (QUEUE, FIRST_TOKEN, STALL, TOTAL)]


def _said_in(tree: ast.Module) -> str:
    """Every text in a module, also the fixed parts of those with values in them, each on a line of its own."""
    return "\n".join(" ".join(one.value.split()) for one in ast.walk(tree)
                     if isinstance(one, ast.Constant) and isinstance(one.value, str))  # fmt: skip


def test_every_message_of_the_troubleshooting_list_is_one_that_is_said() -> None:
    """A user who searches the list for what the log says finds it: the words between the dots are in the code."""
    (section,) = re.findall(r"^## Troubleshooting\n(.*?)^## ", _read("plugin/README.md"), re.DOTALL | re.MULTILINE)
    symptoms = re.findall(r"^\| (.*?) \|", section, re.MULTILINE)[2:]
    said = "\n".join(_said_in(ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCES)
    source = VllmSource.found()
    said += " Available memory on node" if source is None else source.text("vllm.v1.worker.cpu_worker") or ""
    messages = [message for symptom in symptoms for message in re.findall(r"`([^`]+ [^`]+)`", symptom)]
    parts = [part.strip(" .:") for message in messages for part in re.split(r"\.\.\.|running$|failed:", message)]
    assert len(messages) >= 25
    assert [part for part in parts if part not in said] == []
    assert all(len(row.split(" | ")) == 3 for row in re.findall(r"^\| (.*) \|$", section, re.MULTILINE))


def test_nothing_in_the_tree_names_a_machine_or_a_registry() -> None:
    """No tracked text has a path of a developer's machine or the host of a package registry."""
    hosts = re.compile("|".join(("python" + "hosted", "pypi" + "[.]org", "registry[.]npm" + "js")))
    homes = re.compile(r"(?<![\w.])/(?:root|work)/[a-z]")
    suffixes = {".py", ".md", ".toml", ".txt", ".yaml", ".yml", ".sh", ".service", ".js", ""}
    folders = ("plugin", "policies", "dashboard", "deploy", "tests", ".ci")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [path for path in ROOT.iterdir() if path.is_file()]
    texts = [path for path in files if path.suffix in suffixes and "__pycache__" not in path.parts]
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()[:80]}"
        for path in texts
        if path != Path(__file__)
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
        if hosts.search(line) or homes.search(line)
    ]
    assert found == []


def test_the_figures_on_the_first_page_are_what_its_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """The share of realtime requests within their objectives, with a preset of Headway and without it."""
    page = " ".join(_read("README.md").split())
    load, share = re.findall(r"At ([\d.]+) times the load that the engine can serve, (\d+) % of the `realtime`", page)[
        0
    ]
    (share_without,) = re.findall(r"without Headway, (\d+) % do", page)
    (command,) = re.findall(r"On a model of the engine: `headway (simulate [^`]+)`", page)
    assert f"--load {load}" in command
    assert main([*command.split(), "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    attained = [f"{100 * one['classes']['realtime']['attained_ratio']:.0f}" for one in runs]
    assert attained == [share, share_without]
