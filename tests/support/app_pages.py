"""Pages of the dashboard as a visitor gets them, without a browser: what to open, to read, to press and to wait for."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from headway_dashboard.server import SCRIPT

VARIABLES = (
    "HEADWAY_URL", "HEADWAY_PROMETHEUS_URL", "HEADWAY_ADMIN_TOKEN", "HEADWAY_ADMIN_TOKEN_FILE", "HEADWAY_VIEWER_TOKEN",
    "HEADWAY_VIEWER_TOKEN_FILE",
)  # fmt: skip
#: One page alone, with or without the frame above it.
FRAMED = """
from headway_dashboard.shared import watched
from headway_dashboard.pages import frame, {page}
frame.bar(watched()[1])
frame.show({page}.PAGE, *watched())
"""
PAGE = FRAMED.replace("frame.bar(watched()[1])\nframe.show({page}.PAGE, *", "{page}.PAGE.foot(*")


def clear_settings(patch: pytest.MonkeyPatch) -> None:
    """No setting of the developer's own reaches a page, which is refreshed as often as it may be."""
    for name in VARIABLES:
        patch.delenv(name, raising=False)
    patch.setenv("HEADWAY_REFRESH_S", "0.5")


def opened(path: str, query: Mapping[str, object] | None = None) -> AppTest:
    """A visit of an address of the whole dashboard, in a session of its own."""
    app = AppTest.from_file(str(SCRIPT), default_timeout=60)
    app.query_params.update(query or {})
    return go(app, path)


def go(app: AppTest, path: str) -> AppTest:
    """Change to a page, as a click on its name does: the address keeps its query."""
    app._page_hash = calc_hash(path)
    return app.run()


def opened_alone(page: str, form: str = FRAMED) -> AppTest:
    """A visit of one page."""
    return AppTest.from_string(form.format(page=page), default_timeout=60).run()


def plain(text: object) -> str:
    """Without what Markdown and narrow columns need."""
    return str(text).replace("\\", "").replace("\xa0", " ")


def words(app: AppTest) -> str:
    """All the text of a page."""
    assert not app.exception
    kinds = (app.markdown, app.caption, app.info, app.warning, app.error, app.success, app.code)
    return "\n".join(plain(one.value) for kind in kinds for one in kind)


def tiles(app: AppTest) -> dict[str, str]:
    """The tiles by label."""
    return {one.label: plain(one.value) for one in app.metric}


def class_rows(app: AppTest) -> list[dict[str, str]]:
    """The table of the classes on the Overview, row by row; empty where it is not drawn."""
    sent = [json.loads(one.proto.json) for one in app.get("bidi_component")]
    tables = [one for one in sent if "pressable" in one]
    return [
        dict(zip(table["titles"], (plain(cell["text"]) for cell in row["cells"]), strict=True))
        for table in tables
        for row in table["rows"]
    ]


def texts(app: AppTest) -> list[str]:
    """Everything that is written on a page, cell by cell where it is a table."""
    assert not app.exception
    kinds = (app.markdown, app.caption, app.info, app.warning, app.error, app.success, app.code, app.title)
    found = [str(one.value) for kind in kinds for one in kind]
    found += [f"{one.label} {one.value} {one.delta}" for one in app.metric]
    found += [str(cell) for kind in (app.table, app.dataframe) for one in kind for cell in one.value.to_numpy().flat]
    found += [text for row in class_rows(app) for text in row.values()]
    found += [str(one.label) for kind in (app.button, app.text_input, app.expander) for one in kind]
    found += [str(one.proto.text) for one in app.get("progress")]
    return [plain(one) for one in found]


def refresh_until(app: AppTest, holds: Callable[[], bool], every_s: float = 0.5) -> None:
    """Refresh the page until a condition holds, for a minute at most, as often as there is something new to show."""
    ends_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < ends_s, f"the page never got there:\n{words(app)}\n{tiles(app)}"
        time.sleep(every_s)
        app.run()


def again_until(app: AppTest, *parts: str) -> str:
    """Refresh the page until its text has these parts; the text."""
    refresh_until(app, lambda: all(part in words(app) for part in parts))
    return words(app)


def press(app: AppTest, label: str) -> AppTest:
    """Press the first button with this label that can be pressed."""
    return next(one for one in app.button if one.label == label and not one.disabled).click().run()
