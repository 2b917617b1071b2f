"""A release of this commit, ready to be published: `make release`. Nothing is uploaded and no tag is made.

Builds wheel and sdist, checks both with twine, installs the wheel alone into a fresh environment, and writes what came
with it as a bill of materials (CycloneDX). Refused with changes that are not committed, for a version that has its tag,
and without its section in CHANGELOG.md; `--rehearse` names these and builds all the same. `--date` writes today's date
into that section and ends.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from datetime import UTC, date, datetime
from pathlib import Path

from environment import CONSTRAINTS, PYTHON, ROOT, pip_env
from progress import Progress, StepError

OUT = ROOT / "out" / "release"
TOOLS = ["build>=1.2", "twine>=6", "cyclonedx-bom>=7", "pypi-attestations>=0.0.20"]

DATING = "make release ARGS=--date"

NEXT_STEPS = """\
{folder}:
{files}

Nothing was uploaded and no tag was made. To publish:
  1. git tag --sign {tag} --message "Headway {version}" {commit} && git push origin {tag}
  2. {bin}/python -m pypi_attestations sign {packages}
     (signs with an OpenID identity: that of a CI job which the index trusts, or yours, in a browser)
  3. {bin}/twine upload --repository testpypi {packages}
     then, without --repository testpypi; with --attestations from that CI job
  4. Attach SHA256SUMS and the bill of materials to the tag.
  5. In README.md the first line of "Install" becomes the index's; pyproject.toml and CHANGELOG.md get the next version.
"""


def main(argv: list[str] | None = None) -> int:
    """Make the release, or say what stands against it; the exit code is 0, 1 (failed) or 2 (refused)."""
    parser = argparse.ArgumentParser(prog="release.py", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rehearse", action="store_true", help="build also where a release would be refused")
    parser.add_argument("--date", action="store_true", help="date the version's section of CHANGELOG.md, and end")
    chosen = parser.parse_args(argv)
    version = version_of(ROOT)
    try:
        if chosen.date:
            print(date_changes(ROOT, version, datetime.now(UTC).date()))
            return 0
        for reason in (reasons := refusals(ROOT, version)):
            print(f"release of {version} refused: {reason}", file=sys.stderr)
        if reasons and not chosen.rehearse:
            return 2
        folder = _make(version)
    except StepError as error:
        log = f"; see {OUT / 'release.log'}" if (OUT / "release.log").exists() else ""
        print(f"\nrelease stopped: {error}{log}", file=sys.stderr)
        return 1
    print(f"\n{'A rehearsal, not to be published. ' if reasons else ''}{next_steps(version, folder)}", end="")
    return 0


def version_of(root: Path) -> str:
    """The version that pyproject.toml names."""
    version: str = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    return version


def refusals(root: Path, version: str) -> list[str]:
    """The reasons why this commit is not to be released as this version, each with its remedy."""
    found = list[str]()
    if changed := git(root, "status", "--porcelain").splitlines():
        names = ", ".join(line[3:] for line in changed[:3])
        found.append(f"not as committed: {names}{' and others' if len(changed) > 3 else ''}; commit or remove them")
    if git(root, "tag", "--list", f"v{version}"):
        found.append(f"the tag v{version} is there already; raise the version in pyproject.toml")
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", changes, re.M | re.S)
    if section is None:
        found.append(
            f"CHANGELOG.md has no section with a date, `## {version} - YYYY-MM-DD`; write it, or date it: {DATING}"
        )
    elif not section[1].strip():
        found.append(f"CHANGELOG.md says nothing of {version}; write what changes for a user")
    return found


def date_changes(root: Path, version: str, today: date) -> str:
    """Date the section of the version that is not released; returns what is to be done next. Raises StepError."""
    path = root / "CHANGELOG.md"
    head = f"## {version} (unreleased)\n"
    text = path.read_text(encoding="utf-8")
    if head not in text:
        raise StepError(f"{path.name} has no section `{head.strip()}`")
    path.write_text(text.replace(head, f"## {version} - {today}\n", 1), encoding="utf-8")
    return f"{path.name}: {version} is dated {today}. Commit it, then: make release"


def git(root: Path, *words: str) -> str:
    """The output of git. Raises StepError where git fails."""
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StepError(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.rstrip()


def _make(version: str) -> Path:
    """Build and check; returns the folder with the files to publish."""
    folder, tools, bare = OUT / version, OUT / "tools", OUT / "bare"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    progress = Progress(steps=6, log_path=OUT / "release.log")
    # The same commit gives the same bytes.
    env = pip_env() | {"SOURCE_DATE_EPOCH": git(ROOT, "log", "-1", "--format=%ct")}
    python = str(tools / "bin" / "python")
    if not (tools / "bin" / "pip").exists():
        progress.run("environment of the release tools", [PYTHON, "-m", "venv", str(tools)], env, counts=False)
    progress.run("release tools", [python, "-m", "pip", "install", *TOOLS], env)
    progress.run("wheel and sdist", [python, "-m", "build", "--outdir", str(folder), str(ROOT)], env)
    built = [str(path) for path in sorted(folder.iterdir())]
    progress.run("twine check --strict", [python, "-m", "twine", "check", "--strict", *built], env)
    progress.run("a fresh environment", [PYTHON, "-m", "venv", "--clear", "--without-pip", str(bare)], env)
    wheel = next(path for path in built if path.endswith(".whl"))
    pip = [python, "-m", "pip", "--python", str(bare / "bin" / "python"), "install", "-c", str(CONSTRAINTS)]
    progress.run("the wheel in it, without vLLM", [*pip, wheel], env)
    asked = [str(bare / "bin" / "headway"), "--version"]
    told = subprocess.run(asked, env=env, capture_output=True, text=True, check=False).stdout.strip()
    if told != f"headway {version}":
        raise StepError(f"the installed wheel says {told!r}, not 'headway {version}'")
    sbom = ["--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible"]
    sbom += ["--output-file", str(folder / f"vllm_headway-{version}.cdx.json"), str(bare / "bin" / "python")]
    progress.run("bill of materials", [str(tools / "bin" / "cyclonedx-py"), "environment", *sbom], env)
    _write_sums(folder)
    return folder


def _write_sums(folder: Path) -> None:
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(folder.iterdir())]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def next_steps(version: str, folder: Path) -> str:
    """The files that were made, and the next steps of the maintainer."""
    made = sorted(folder.iterdir())
    return NEXT_STEPS.format(
        folder=folder.relative_to(ROOT),
        files="\n".join(f"  {path.stat().st_size / 1024:7.0f} KiB  {path.name}" for path in made),
        tag=f"v{version}",
        version=version,
        commit=git(ROOT, "rev-parse", "--short", "HEAD"),
        bin=(OUT / "tools" / "bin").relative_to(ROOT),
        packages=" ".join(str(path.relative_to(ROOT)) for path in made if path.suffix in (".whl", ".gz")),
    )


if __name__ == "__main__":
    sys.exit(main())
