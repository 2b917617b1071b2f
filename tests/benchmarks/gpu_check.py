"""``make gpu-check``: does all of Headway work on your GPU, with your model? One report, about 20 minutes.

    make gpu-check ARGS="--model Qwen/Qwen3-8B"                  a model of the Hugging Face hub, fetched if need be
    make gpu-check ARGS="--model /models/my-model"               a folder with a config.json
    make gpu-check ARGS="--model DIR --short" GPU_BIN=.venv/bin  minutes, also without a GPU: does all of it work?
    make gpu-check GPU_BIN=/path/of/an/environment/bin ...       where vLLM is there already (with vllm-headway[tools])

Nothing else should use the GPU meanwhile. The stages, each bounded in time, all together in 47 minutes:

    load     the default preset beside vLLM alone on one engine, at 0.5, 0.9 and 1.5 times the capacity that is found
             first, in turn, and back in the second round: what the queue costs, and what it keeps in an overload
    step     streams beside long prompts, with the step policy on and off
    start    `headway serve` as it comes: until it is ready, its warm-up, its capacity
    kill     its engine is killed under load: a new one serves what waited, and running answers alone break off
    recycle  its engine is replaced alive under load: no request notices

The report is one Markdown file with all figures as JSON at its end; attach it to an issue. It names GPU, driver,
versions and the model's own name, and holds no prompt, key, host name, user or path. It is written after each stage:
when a stage fails, or you press Ctrl-C, it has what was measured, and why the rest was not. The logs beside it stay
with you: they may hold paths. A second Ctrl-C kills what the first one has asked to end.

exit codes: 0 every check held   1 one did not, or a stage failed   2 wrong usage   130 interrupted
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from gpu.hardware import versions, watched
from gpu.life import Life
from gpu.parts import FORMS, in_process, keep, part_command, play_part
from gpu.report import held, written
from gpu.stages import Outcome, Play, Show, Stage, State, play_all

from headway_tools.console import Bar, has_vllm, install_command
from headway_tools.console.exits import INTERRUPTED, Exit

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "out" / "gpu-check" / "report.md"
_START_S = 420.0
#: What would change the server that is checked, or would ask for a key.
_OF_THE_USER = ("HEADWAY_", "VLLM_API_KEY", "OPENAI_API_KEY")


def main(words: Sequence[str]) -> int:
    """Check, or with ``--part`` run one part of a check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, metavar="NAME_OR_PATH", help="of the hub, or a folder")
    parser.add_argument("--short", action="store_true", help="minutes: tries that all works; goals do not count")
    parser.add_argument("--report", type=Path, default=REPORT, metavar="FILE",
                        help="where the report is written (default: out/gpu-check/report.md)")  # fmt: skip
    parser.add_argument("--part", choices=FORMS, help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(words)
    if chosen.part is not None:
        play_part(chosen.part, Path(chosen.model), chosen.results, short=chosen.short)
        return Exit.OK
    if not has_vllm():
        parser.error(f"vLLM is not installed here; install it with: {install_command('gpu')}")
    for name in [name for name in os.environ if name.startswith(_OF_THE_USER)]:
        del os.environ[name]
    with TemporaryDirectory() as folder:
        try:
            model = _named(chosen.model, Path(folder))
        except (OSError, ValueError) as error:
            parser.error(f"no such model: {chosen.model} ({type(error).__name__}); give a folder, or a name of the hub")
        with Bar(sys.stderr) as bar:
            name = model.name if Path(chosen.model).expanduser().exists() else chosen.model
            return asyncio.run(check(name, model, chosen.report, bar.show, short=chosen.short))


def _named(model: str, folder: Path) -> Path:
    """A link in ``folder`` to the model's own folder, with the model's own name: that is all that reports say of it."""
    found, name = Path(model).expanduser().resolve(), Path(model).name
    if found.is_dir():
        name = found.name
        if not (found / "config.json").is_file():
            raise ValueError(f"no config.json in {model}")
    else:
        from huggingface_hub import snapshot_download

        found = Path(snapshot_download(model))
    link = folder / name
    link.symlink_to(found)
    return link


class Interrupt:
    """The end of a check by a signal: the first one ends the stage and all that it has started, each later one kills
    that. None may interrupt the ending itself: processes would be left behind.
    """

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        self._came = False

    def __call__(self) -> None:
        """A signal came."""
        if not self._came:
            self._came = True
            self._task.cancel()
            return
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                process.kill()


async def check(name: str, model: Path, report: Path, show: Show, *, short: bool) -> int:
    """Run all stages, and write the report after each; returns the exit code."""
    if (task := asyncio.current_task()) is not None:
        interrupt = Interrupt(task)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, interrupt)
    machine = {"model": name, **versions()}
    outcomes = list[Outcome]()
    async with AsyncExitStack() as stack:
        stages = stages_of(model, report.parent, stack, short=short)

        def ended() -> None:
            written(report, machine, outcomes, short=short)
            last = [one for one in outcomes if one.state is not State.NOT_RUN][-1]
            print(f"{last.title}: {last.state} in {last.took_s:.0f} s  {last.reason}", file=sys.stderr, flush=True)

        whole = await play_all(stages, outcomes, show, ended)
    written(report, machine, outcomes, short=short)
    print(f"{'every check held' if held(outcomes) else 'not every check held'}: see {report}")
    if not whole:
        return INTERRUPTED
    return Exit.OK if held(outcomes) else Exit.FAILED


def stages_of(model: Path, folder: Path, stack: AsyncExitStack, *, short: bool) -> list[Stage]:
    """The stages in their order; ``stack`` ends the server of the last three."""
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "results.json"
    results.unlink(missing_ok=True)
    life = Life(model, folder / "serve.log", stack, _START_S, short=short)

    async def part(name: str, outcome: Outcome, show: Show) -> None:
        command = part_command(Path(__file__), name, model, results, short=short)
        try:
            await in_process(command, os.environ, folder / f"{name}.log", show)
        finally:
            keep(name, results, outcome, short=short)

    async def beside_gpus(play: Play, outcome: Outcome, show: Show) -> None:
        async with watched(outcome.figures):
            await play(outcome, show)

    found = [
        Stage("load", "The default preset beside vLLM alone", 900.0, partial(part, "load")),
        Stage("step", "The step policy beside long prompts", 480.0, partial(part, "step")),
        Stage("start", "A server: start, warm-up, capacity", _START_S + 60.0, life.start),
        Stage("kill", "An engine that is killed under load", 480.0, life.kill, needs="start"),
        Stage("recycle", "An engine that is recycled under load", 480.0, life.recycle, needs="start"),
    ]
    return [replace(stage, play=partial(beside_gpus, stage.play)) for stage in found]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
