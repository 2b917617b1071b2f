"""The questions of an operator at night: the page that is two clicks away has the words of each answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import live_stand_in
import pytest
from app_pages import class_rows, opened, refresh_until, texts
from live_stand_in import LiveStandIn
from operators_questions import ANSWERS, BUDGET_LEFT, LINK, SERVER, TENANTS, Clicks, troubled_server

pytestmark = pytest.mark.slow

#: Where the clicks lead; what is folded is drawn as well.
ADDRESSES: dict[Clicks, tuple[str, dict[str, object]]] = {
    (): ("", {}),
    (("button", "Copy incident"),): ("", {}),
    (TENANTS,): ("tenants", {}),
    (TENANTS, ("link", "held")): ("tenants", {"tenant": "held"}),
    (SERVER,): ("server", {}),
    (SERVER, ("text", "Configuration")): ("server", {}),
}


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStandIn]:
    """The server, for all pages."""
    with troubled_server(tmp_path_factory.mktemp("troubled")) as live:
        yield live


@pytest.mark.parametrize(
    ("path", "query"), [("", {}), ("tenants", {}), ("tenants", {"tenant": "held"}), ("server", {})]
)
def test_each_question_is_answered_on_its_page(
    watching: Callable[..., None], troubled: LiveStandIn, path: str, query: dict[str, object]
) -> None:
    """In words, by the same table that a browser follows click by click in the long form."""
    watching(troubled.url, HEADWAY_ADMIN_TOKEN=live_stand_in.TOKEN)
    asked = [answers for clicks, answers in ANSWERS.items() if ADDRESSES[clicks] == (path, query)]
    wanted = {question: words.removesuffix(LINK) for answers in asked for question, (_, words) in answers.items()}
    budget = wanted.pop(BUDGET_LEFT, "")
    assert wanted
    app = opened(path, query)

    def unanswered() -> list[str]:
        text = "\n".join(texts(app))
        return [one for one, words in wanted.items() if not re.search(words, text, re.DOTALL | re.MULTILINE)]

    refresh_until(app, lambda: not unanswered())
    if budget:
        refresh_until(app, lambda: bool(re.search(budget, class_rows(app)[1]["Budget left"])))
