"""The pages about what clients and operators touch: variables, routes, errors, metrics, panels and alerts."""

from __future__ import annotations

from collections.abc import Mapping

from headway.api import routes as admin
from headway.api_errors import ERRORS
from headway.http.access.route_table import known_routes
from headway.http.inference.timeouts import FIRST_TOKEN, QUEUE, STALL, TOTAL
from headway.operator.metrics import TABLE
from headway.patches import PATCHES
from headway.settings import VARIABLES
from headway_dashboard.analysis.catalogue.alerts import RULES
from headway_dashboard.export.docs_table import table_text
from headway_site.tables import code, page, table, words


def environment() -> str:
    """Every variable by what reads it."""
    parts = []
    for of in dict.fromkeys(variable.of for variable in VARIABLES):
        cells = [
            [code(variable.names), variable.wanted.strip(","), variable.usual, variable.meaning]
            for variable in VARIABLES
            if variable.of == of
        ]
        parts += [f"## Read by the {of}", table(["variable", "value", "default", "meaning"], cells)]
    return page(
        "Environment", "A wrong value ends the start in one line. `headway doctor` names a misspelt name.", *parts
    )


def routes() -> str:
    """The admin API, the access of every other route, and the headers that bound a request."""
    own_routes = [[f"`{route.method} {route.path}`", route.role or "-", route.summary,
               ", ".join(f"{int(n)}" for n in route.refusals)]
              for route in admin.TABLE]  # fmt: skip
    own = {route.path for route in admin.TABLE}
    others = [[f"`{route.path}`", ", ".join(sorted(route.methods or ("any",))), route.access]
              for route in known_routes() if route.path not in own]  # fmt: skip
    stages = {"in the queue": QUEUE, "to the first token": FIRST_TOKEN, "between tokens": STALL, "in all": TOTAL}
    headers = [[stage, code(name for name, _ in readers)] for stage, readers in stages.items()]
    return page(
        "Routes",
        "All routes of a server. Any other path, or another form of a listed path, gets 404.",
        "## Admin API",
        "A *viewer* reads, an *operator* also changes. `GET /headway/v1/openapi.json` has the form of every body.",
        table(["route", "token", "answer", "refusals"], own_routes),
        "## All other routes",
        "`open` needs nothing, `inference` an API key where the server has keys, `operator` the operator's token.",
        table(["path", "methods", "access"], others),
        "## Time-out headers",
        "A client may shorten each stage of its class. Of several headers for a stage the smallest counts.",
        table(["stage", "headers"], headers),
    )


def errors() -> str:
    """Every error of a generating route; KeyError where a code has no sentence, or a sentence no code."""
    when: Mapping[str, str] = words("errors")
    if differing := when.keys() ^ ERRORS.keys():
        raise KeyError(f"errors.toml and headway.api_errors differ in {sorted(differing)}")
    rows = [[str(int(ERRORS[name].status)), f"`{name}`", f"`{ERRORS[name].types.openai}`",
             f"`{ERRORS[name].types.anthropic}`", str(ERRORS[name].advice), text]
            for name, text in when.items()]  # fmt: skip
    return page(
        "Errors",
        "Every error that Headway itself answers on a generating route, in the format of the API that was called. A "
        "refusal for load carries its code in `x-headway-reason`.",
        table(["status", "code", "`type`, OpenAI", "`type`, Anthropic", "another try", "when"], rows),
    )


def patches() -> str:
    """Every name of vLLM that is replaced or added to."""
    rows = [[f"`{patch.name}`", code(patch.targets) or "routes of the application", patch.reason, patch.without,
             f"[{patch.upstream.rsplit('/', 1)[1]}]({patch.upstream})" if patch.upstream else "-"]
            for patch in PATCHES]  # fmt: skip
    return page(
        "Patches of vLLM",
        "Headway's changes of vLLM beside its plugin interfaces. A start logs the patches in force. "
        "`HEADWAY_PATCHES_OFF=NAME,NAME` switches patches off, to find a faulty one. `make test-versions` looks for "
        "the targets in every supported release. A patch goes when its issue of vLLM is closed in all releases.",
        table(["patch", "target", "effect", "without the patch", "issue of vLLM"], rows),
    )


def metrics() -> str:
    """Every metric with its kind and its help text."""
    rows = [[f"`{name}`", kind, text] for name, (kind, text) in TABLE.items()]
    about = "All metrics on a server's `/metrics`, beside `vllm:*`; `headway_share_*` are those of `headway share`."
    return page("Metrics", about, table(["metric", "kind", "meaning"], rows))


def panels() -> str:
    """Every panel with its metrics and alerts, and every alert with its condition."""
    rows = [[f"[{rule.name}](../operate/runbooks.md#{rule.name.lower()})", rule.severity, rule.lasting, rule.action]
            for rule in RULES]  # fmt: skip
    return page(
        "Panels and alerts",
        "The dashboard, Grafana's board and the rules of Prometheus have one catalogue. The page *What the alerts "
        "compare* is a row of the board only. `vllm:` names are vLLM's own.",
        "## Alerts",
        table(["alert", "severity", "after", "first step"], rows),
        "## Panels",
        table_text().rstrip(),
    )


def runbooks() -> str:
    """A section for each alert, to which the alert links: its first step, and more from ``runbooks.toml``."""
    more = words("runbooks")
    if unknown := more.keys() - {rule.name for rule in RULES}:
        raise KeyError(f"runbooks.toml names no alert: {sorted(unknown)}")
    sections = [f"## {rule.name}\n\n{' '.join((rule.action, more.get(rule.name, ''))).strip()}" for rule in RULES]
    about = "Each alert links to its section. [Panels and alerts](../reference/panels.md) has the conditions."
    return page("Runbooks", about, *sections)
