"""The pictures of the dashboard in README.md and dashboard/README.md: ``make pictures``.

They show the overload of ``headway demo`` on the real engine, in Debian's Chromium. About four minutes.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
PICTURES = {"": ROOT / "dashboard" / "overview.png", "latency": ROOT / "dashboard" / "latency.png"}
URL = "http://127.0.0.1:8501"
_LIGHT_S = 120  # of light traffic, half of it before the overload
_OVERLOADED_S = 14  # until the charts show the overload, too


def main() -> int:
    """Write the pictures; the exit code is the demo's."""
    headway = Path(sys.executable).with_name("headway")
    command = [str(headway), "demo", "--exit-after", str(_LIGHT_S)]
    demo = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            _take(page, demo)
            browser.close()
        return demo.wait()
    finally:
        demo.terminate()
        demo.wait()


def _take(page: Page, demo: subprocess.Popen[str]) -> None:
    for line in demo.stdout or ():
        print(line, end="", flush=True)
        if line.startswith("  overload:"):
            break
    time.sleep(_OVERLOADED_S)
    for path, picture in PICTURES.items():
        page.goto(f"{URL}/{path}")
        page.locator(".js-plotly-plot .main-svg").first.wait_for()
        time.sleep(4)  # the rest of the charts
        page.screenshot(path=picture)
    print(*(demo.stdout or ()), sep="", end="")


if __name__ == "__main__":
    sys.exit(main())
