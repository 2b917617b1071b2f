"""The additions of MkDocs to each page: the version of Headway, and the file to edit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def on_config(config: Any) -> Any:
    """Show the version beside the name."""
    found = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    config.site_name = f"Headway {found[1] if found else ''}".strip()
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Name the file of the page at its end."""
    written = (
        "`make reference` writes this page" if page.file.src_uri.startswith("reference/") else "To change it, edit"
    )
    return f"{markdown}\n\n---\n\n{written}: `deploy/site/docs/{page.file.src_uri}`\n"
