"""The Python examples of the how-to pages have sound types."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tiers import long_form


@pytest.mark.slow
@long_form("make check has the types of plugin/examples, which call the same; vLLM's own take minutes to read")
def test_the_examples_of_the_pages_pass_a_strict_type_checker(root: Path, tmp_path: Path) -> None:
    """With vLLM's own types, and without any setting of this repository; what `make check` has read is reused."""
    scripts = []
    for page in ("in-a-program", "batch-a-function"):
        text = (root / f"deploy/site/docs/how-to/{page}.md").read_text(encoding="utf-8")
        for place, example in enumerate(re.findall(r"```py(?:thon)?\n(.*?)```", text, re.DOTALL)):
            scripts.append(tmp_path / f"{page.replace('-', '_')}_{place}.py")
            scripts[-1].write_text(example, encoding="utf-8")
    assert len(scripts) >= 3
    strict = ["--strict", "--config-file=", f"--cache-dir={root / '.mypy_cache'}"]
    environment = {**os.environ, "MYPYPATH": os.pathsep.join(str(root / one) for one in ("plugin", "policies"))}
    command = [sys.executable, "-m", "mypy", *strict, *map(str, scripts)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
