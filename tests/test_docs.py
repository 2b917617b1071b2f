"""Tests of the documents: generated pages are current, links and names exist, and examples run as printed."""

from __future__ import annotations

import ast
import re
import runpy
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import reference
from headway_site import check, works_with
from headway_site.presets import EVERY_SETTING
from running_server import ROOT
from vllm_source import found_source

from headway_policies import Outcome, conformance, parse_preset
from headway_tools.cli import main

DOCS = ROOT / "deploy" / "site" / "docs"
SOURCES = [one for folder in ("plugin", "policies", "dashboard") for one in ROOT.glob(f"{folder}/**/*.py")]
BATCH, POLICY = "deploy/site/docs/how-to/batch-a-function.md", "deploy/site/docs/how-to/write-a-policy.md"
OWN_POLICIES = "plugin/examples/own_policies.py"


def _read(path: str | Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_the_generated_pages_are_what_the_code_says() -> None:
    """A command, variable, metric, route, error, bound, preset or panel that changes is renewed in the reference."""
    assert reference.stale() == [], "run: make reference"


def test_a_feature_without_a_test_is_called_untested_and_a_test_that_is_gone_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The page of features claims nothing without a function of that name in that file."""
    row = {"what": "teleportation", "flags": ["--beam"], "ring": "yes", "refused": True}
    assert works_with.state(row) == "not tested"
    assert not works_with.exists("tests/test_docs.py::test_teleportation")
    assert not works_with.exists("tests/test_no_such_file.py::test_teleportation")
    monkeypatch.setattr(works_with, "data", lambda *_: [row | {"tests": ["tests/test_docs.py::test_teleportation"]}])
    with pytest.raises(KeyError, match="test_teleportation"):
        works_with.works_with()


@pytest.mark.parametrize("document", check.documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere_and_names_exist(document: Path) -> None:
    """Files, headings, variables, metrics, alerts and commands that a document names."""
    assert list(check.problems(document)) == []


def test_every_page_is_in_the_navigation() -> None:
    """MkDocs and the first page of the documentation list every page."""
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    listed = re.findall(r": (\S+\.md)$", (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(pages)
    assert set(re.findall(r"\]\((\S+\.md)\)", (DOCS / "index.md").read_text(encoding="utf-8"))) == pages - {"index.md"}


def test_every_outcome_has_its_word_in_the_glossary() -> None:
    """Each way a request can end is a word of the glossary."""
    (row,) = re.findall(r"^\| outcome \|(.*)\|$", _read("README.md"), re.MULTILINE)
    assert {outcome.value.split("_")[0] for outcome in Outcome} - {"engine"} <= set(re.findall(r"\w+", row))


def test_the_examples_of_the_policies_work() -> None:
    """The Python example of policies/README.md runs, and the preset with every setting is valid and complete."""
    text = _read("policies/README.md")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(example, "policies/README.md", "exec"), {})
    assert parse_preset(EVERY_SETTING.read_text(encoding="utf-8"), EVERY_SETTING.name).name == "night"


@pytest.mark.parametrize(
    ("name", "suite", "protocol"),
    [
        ("LeastSlack", conformance.check_order, "Order"),
        ("ShortestFirst", conformance.check_discipline, "Discipline"),
        ("Headroom", conformance.check_limit_policy, "LimitPolicy"),
        ("HalfFull", conformance.check_window, "Window"),
    ],
)
def test_the_custom_policies_of_the_documentation_conform(
    name: str, suite: Callable[[type], None], protocol: str
) -> None:
    """One of each kind passes its suite, which is in the table of the page."""
    suite(runpy.run_path(str(ROOT / OWN_POLICIES))[name])
    assert re.search(
        rf"^\| `[a-z.]+` \| `{protocol}` \|.* `{suite.__name__}\(Class\)` \|$", _read(POLICY), re.MULTILINE
    )


def test_the_custom_policy_that_is_printed_is_that_of_the_examples() -> None:
    """Annotations apart; tests/policies/test_readme_policy runs it as printed."""
    (example,) = re.findall(r"```py\n(.*?)```", _read(POLICY), re.DOTALL)
    assert _statements(example, "ShortestFirst") == _statements(_read(OWN_POLICIES), "ShortestFirst")


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
    """The example of how-to/batch-a-function.md runs as it stands there."""
    (example,) = re.findall(r"```py\n(.*?)```", _read(BATCH), re.DOTALL)
    exec(compile(example, BATCH, "exec"), {"__name__": "example"})
    assert capsys.readouterr().out == "[[3.0], [5.0], [9.0]] [3.0] 4\n42\n"


def test_the_examples_of_porting_a_batcher_work(capsys: pytest.CaptureFixture[str]) -> None:
    """Every Python block of the page's second part runs by itself, and prints what it says it does."""
    for example in re.findall(r"```python\n(.*?)```", _read(BATCH), re.DOTALL):
        exec(compile(example, BATCH, "exec"), {"__name__": "example"})
    assert capsys.readouterr().out.splitlines() == [
        "request-1: 14 characters",
        "1.0",
        "IN TIME no answer in time: queue_timeout 1",
    ]


def test_the_recipe_for_paying_users_makes_the_keys_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its two commands run as printed, and the tenants have these classes and shares."""
    recipe = _read("deploy/site/docs/how-to/secure.md").split("## Paying users first")[1].split("\n## ")[0]
    path = tmp_path / "keys.toml"
    for command in re.findall(r"^    headway (keys add .*)$", recipe, re.MULTILINE):
        assert main(command.replace("keys.toml", str(path)).split()) == 0
    tenants = tomllib.loads(path.read_text(encoding="utf-8"))["tenants"]
    assert (tenants["paying"]["default_class"], tenants["paying"]["share"]) == ("realtime", 3)
    assert (tenants["free"]["default_class"], tenants["free"]["classes"]) == ("normal", ["normal", "batch"])
    assert len(capsys.readouterr().out.split()) == 2  # the two keys


def _said_in(tree: ast.Module) -> str:
    """Every text in a module, also the fixed parts of those with values in them, each on a line of its own."""
    return "\n".join(" ".join(one.value.split()) for one in ast.walk(tree)
                     if isinstance(one, ast.Constant) and isinstance(one.value, str))  # fmt: skip


def test_every_message_of_the_troubleshooting_list_is_one_that_is_said() -> None:
    """A user who searches the list for what the log says finds it: the words between the dots are in the code."""
    section = _read("deploy/site/docs/operate/troubleshooting.md")
    symptoms = re.findall(r"^\| (.*?) \|", section, re.MULTILINE)[2:]
    said = "\n".join(_said_in(ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCES)
    source = found_source()
    said += " Available memory on node" if source is None else source.text("vllm.v1.worker.cpu_worker") or ""
    messages = [message for symptom in symptoms for message in re.findall(r"`([^`]+ [^`]+)`", symptom)]
    parts = [part.strip(" .:") for message in messages for part in re.split(r"\.\.\.|running$|failed:", message)]
    assert len(messages) >= 20
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
