"""The client of completions: the end of each request is told apart, and a server that does not suit is named first."""

from __future__ import annotations

import time
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from handler_server import Quiet, running
from load_stand_in import FAULTS, LoadStandIn
from tcp_servers import closed_address

from headway.api import BadUrlError
from headway_simulator.traffic.workload import Request
from headway_tools.load.completions import Completions, UnreachableServerError, UnsuitableServerError
from headway_tools.load.served import COMPLETED, FAILED, REFUSED, UNANSWERED, Served


async def ask(server: LoadStandIn, *names: str, output: int = 4, **options: Any) -> list[Served]:
    """One request of each class, in turn."""
    async with Completions(server.url, **({"timeout_s": 10.0} | options)) as client:
        return [await client.complete(Request(0.0, name, 6, output, tenant="t")) for name in names]


ENDINGS = {
    "refused": (REFUSED, "429 queue_full", 7),
    "refused-bare": (REFUSED, "status 503", None),
    "broken": (FAILED, "status 500: out of luck", None),
    "redirected": (FAILED, "status 307: ", None),
    "event": (FAILED, "no next token", None),
    "abort": (FAILED, "aborted by the engine", None),
    "cut": (UNANSWERED, "the stream was cut", None),
    "endless-line": (UNANSWERED, "", None),
    "silent": (UNANSWERED, "no end within 1.5 s", None),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "silent" else []) for name in FAULTS]
)
async def test_each_way_to_end_is_told_apart(name: str) -> None:
    """A refusal with its reason and advice, an answer that is an error, and no answer at all."""
    with LoadStandIn() as server:
        (served,) = await ask(server, name, timeout_s=1.5 if name == "silent" else 20.0)
    ending, why, retry_after_s = ENDINGS[name]
    assert (served.ending, served.retry_after_s, served.class_name) == (ending, retry_after_s, name)
    assert served.why.startswith(why)


async def test_an_answer_has_its_times_and_its_tokens() -> None:
    """The first token, the mean time between tokens, and what the server counted."""
    with LoadStandIn(token_s=0.01) as server:
        (served,) = await ask(server, "chat", output=5)
    assert (served.ending, served.output_tokens) == (COMPLETED, 5)
    assert served.ttft_s is not None
    assert served.inter_token_s is not None
    assert served.ttft_s >= 0.01
    assert served.ttft_s + 4 * served.inter_token_s >= 5 * 0.01  # a busy machine may be late for the first one alone
    assert served.within(60, 60)
    assert not served.within(0.001, 60)
    assert not served.within(60, 0.001)


async def test_a_request_is_what_was_drawn() -> None:
    """Length of prompt and answer, class, tenant and key, on a connection of its own; a prompt is never sent twice."""
    with LoadStandIn() as server:
        await ask(server, "chat", "chat", key="k")
        await ask(server, "chat", as_text=True)
    first, again, words = (one for one in server.asked if one["class"])
    assert (len(first["prompt"]), first["max_tokens"], first["ignore_eos"]) == (6, 4, True)
    assert (first["class"], first["tenant"], first["key"]) == ("chat", "t", "Bearer k")
    assert first["connection"] == again["connection"] == "close"
    assert first["prompt"] != again["prompt"]
    assert isinstance(words["prompt"], str)
    assert words["key"] is None


async def test_a_server_that_is_not_there_is_one_error() -> None:
    """The error names the URL."""
    url = f"http://{closed_address()}"
    with pytest.raises(UnreachableServerError, match=f"no server answers at {url}"):
        async with Completions(url, timeout_s=5.0):
            pass


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"models": {"detail": "Not Found"}, "models_status": 404}, "/v1/models answered 404 and names no model"),
        ({"models": {"data": "?"}}, "names no model"),
        ({"models_status": 401}, "set OPENAI_API_KEY"),
        ({"takes_ids": False}, "prompt must be a string; try --text-prompts"),
    ],
    ids=["another server", "nonsense", "a key", "no token ids"],
)
async def test_a_server_that_does_not_suit_is_named_before_any_load(change: dict[str, Any], text: str) -> None:
    """With what to do."""
    with LoadStandIn() as server:
        for name, value in change.items():
            setattr(server, name, value)
        with pytest.raises(UnsuitableServerError, match=text):
            await ask(server)


async def test_a_model_that_is_not_served_is_refused_with_those_that_are() -> None:
    """And one that is served is used."""
    with LoadStandIn() as server:
        server.models = {"data": [{"id": "one"}, {"id": "two", "max_model_len": 77}]}
        async with Completions(server.url, model="two", timeout_s=5.0) as client:
            assert (client.model.name, client.model.max_tokens) == ("two", 77)
        with pytest.raises(UnsuitableServerError, match="has no model 'three', but: one, two"):
            await ask(server, model="three")


@pytest.mark.parametrize("url", ["", "h:1", "ftp://h", "http://", "http://[::1", "http://h:99999"])
async def test_what_is_no_url_is_said_to_be_none(url: str) -> None:
    """Not taken for a server that is down."""
    with pytest.raises(BadUrlError):
        async with Completions(url, timeout_s=5.0):
            pass


async def test_a_page_in_pieces_is_read_to_its_end() -> None:
    """A read gives what has come: a long page comes in many packets."""
    classes = "".join(
        f'headway_queue_depth{{class="{name}"}} 0\n'
        f'headway_objective_seconds{{class="{name}",objective="first_token"}} 0.5\n'
        for name in ("gold", "silver")
    )

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            models = b'{"data": [{"id": "m", "max_model_len": 64}]}'
            body = models if self.path == "/v1/models" else classes.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            for at in range(0, len(body), 30):
                self.wfile.write(body[at : at + 30])
                time.sleep(0.01)

        def do_POST(self) -> None:
            self.send_response(429)
            self.end_headers()

    with running(Handler) as url:
        async with Completions(url, timeout_s=5.0) as client:
            found = (await client.counts()).classes
    assert {name: one.objectives_s for name, one in found.items()} == {
        "gold": {"first_token": 0.5}, "silver": {"first_token": 0.5},
    }  # fmt: skip
