"""The two stages that run ``serving.Run`` in a process of its own, so that a GPU is free again after each.

The load: the default preset beside vLLM alone on one engine, at 0.5, 0.9 and 1.5 times the capacity that is measured
first. The step: streams beside long prompts with the step policy on and off, and what it costs plain chat. Both keep
the figures in one results file as they come, so the second finds the engine's constants, and a part that fails loses
none.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from accepted import Accepted
from serving.client import prepare
from serving.form import Form, Part, Span
from serving.machine import describe
from serving.report import Report, report
from serving.results import Results
from serving.run import Run
from serving.step_report import step_report

from gpu.stages import Outcome, Show, StageError
from headway_tools.demo.children import Family

_ARMS = ("plain", "default")
_OVERLOAD = Span(30.0, 20.0, 4.0)  # the default preset lets a burst of half a minute wait, and cuts waits after it
_LOAD = Form(
    parts=(Part("W1", (0.5, 0.9), _ARMS), Part("W1", (1.5,), _ARMS, span=_OVERLOAD)),
    rounds=2,
    span=Span(4.0, 14.0, 4.0),
    level_s=3.0,
    layer_s=5.0,
    layer_rounds=0,
)
_STEP = replace(_LOAD, parts=(), beside=("plain", "steps"))
FORMS: Mapping[str, Form] = {"load": _LOAD, "step": _STEP}
_REPORTS: Mapping[str, Callable[[Results, Accepted], Report]] = {"load": report, "step": step_report}
_SHORT_SPAN = Span(1.0, 4.0, 1.0)
_NAMED = 3
_MARK, _LOOK_S, _GRACE_S = "@progress ", 0.5, 15.0
_ERROR = re.compile(r"\b(\w+(?:Error|Exception))(?=:|$)", re.MULTILINE)


def form_of(name: str, *, short: bool) -> Form:
    """The form of a part; the short one tries that all works, and its figures say little."""
    form = FORMS[name]
    if not short:
        return form
    parts = tuple(replace(part, span=None) for part in form.parts)
    return replace(form, parts=parts, rounds=1, span=_SHORT_SPAN, level_s=0.5, layer_s=2.0)


def play_part(name: str, model: Path, path: Path, *, short: bool) -> None:
    """Run one part in this process; its progress goes to the output, a line each."""
    prepare()
    results = Results.read(path)
    results.machine = describe(model)
    run = Run(model, form_of(name, short=short), results, _print_progress, again=False)
    asyncio.run(run.play())


async def in_process(command: list[str], environ: Mapping[str, str], log: Path, show: Show) -> None:
    """Run a part in a child, and end it with all that it has started. Raises StageError where it fails."""
    family = Family()
    child = family.start("part", command, environ, log)
    ended = asyncio.create_task(family.first_exit())
    try:
        while not ended.done():
            await asyncio.wait([ended], timeout=_LOOK_S)
            if said := [line for line in child.output() if line.startswith(_MARK)]:
                done, _, words = said[-1].removeprefix(_MARK).partition(" ")
                show(words, float(done))
    finally:
        ended.cancel()
        await family.stop(_GRACE_S)
    if child.exit_code != 0:
        raise StageError(f"its process ended with {errors_in(log) or f'exit code {child.exit_code}'}")


def keep(name: str, path: Path, outcome: Outcome, *, short: bool) -> None:
    """Put the figures that a part has measured so far into the outcome; the goals of a short one do not count."""
    if not path.is_file():
        return
    results = Results.read(path)
    if results.constants is None or not (results.beside if name == "step" else results.blocks):
        return
    if name == "load":
        results.beside, results.chat = [], []
    found = _REPORTS[name](results, {})  # the misses that are accepted are those of other machines
    outcome.text = found.text
    plain = json.loads(path.read_text(encoding="utf-8"))
    wanted = ("beside", "chat") if name == "step" else ("constants", "arms", "blocks")
    outcome.figures["bench"] = {one: plain[one] for one in wanted}
    outcome.check(short or not found.missed, "a goal of this stage was missed: see its table")


def errors_in(log: Path) -> str:
    """The names of the last exceptions in a log: what they say may hold paths and keys, and stays out."""
    names = _ERROR.findall(log.read_text(encoding="utf-8", errors="replace")) if log.is_file() else []
    return ", ".join(list(dict.fromkeys(reversed(names)))[:_NAMED][::-1])


def part_command(script: Path, name: str, model: Path, path: Path, *, short: bool) -> list[str]:
    """The words that start a part."""
    words = ["--part", name, "--model", str(model), "--results", str(path)]
    return [sys.executable, str(script), *words, *(["--short"] if short else [])]


def _print_progress(words: str, done: float) -> None:
    print(f"{_MARK}{done:.3f} {words}", flush=True)
