"""The demo's clients: an open loop, and exactly one outcome for each request."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headway_simulator import Request
from headway_tools.demo.drive import COMPLETED, FAILED, REFUSED, Driver, Served
from headway_tools.demo.token_lengths import TokenLengths
from headway_tools.demo.traffic import Arrival


def event(**fields: object) -> bytes:
    """One line of a chat completion stream."""
    frame = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}
    return f"data: {json.dumps(frame | fields)}\n\n".encode()


def choice(content: str, finish: str | None = None) -> bytes:
    """A token, and perhaps the end."""
    return event(choices=[{"index": 0, "delta": {"content": content}, "finish_reason": finish}])


USAGE = event(usage={"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3})
DONE = b"data: [DONE]\n\n"


STREAMS = {
    "well": choice("") + choice("a") + choice("b", "length") + USAGE + DONE,
    "cut": choice("a"),
    "aborted": choice("a", "abort") + USAGE + DONE,
    "error": choice("a") + b'data: {"error": {"message": "engine lost", "code": 503}}\n\n' + DONE,
}
SEEN: list[dict[str, object]] = []


class _Answers(BaseHTTPRequestHandler):
    """Answers as the prompt says: "STATUS" or a key of STREAMS."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        SEEN.append({**body, "class": self.headers["x-headway-class"]})
        prompt = body["messages"][0]["content"]
        status = int(prompt) if prompt.isdigit() else 200
        answer = STREAMS.get(prompt, b"{}")
        self.send_response(status)
        self.send_header("Content-Type", "text/event-stream" if status == 200 else "application/json")
        if status == 429:
            self.send_header("x-headway-reason", "queue_full")
            self.send_header("Retry-After", "4")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    """A server that answers in each way there is."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


async def drive(url: str, *prompts: str) -> list[Served]:
    """Send one request for each prompt and return the ends."""
    served: list[Served] = []
    driver = Driver(url, "m", served.append)
    try:
        await driver.send(Arrival(0.01 * place, "batch", prompt, 9) for place, prompt in enumerate(prompts))
        await driver.settle(20)
        assert driver.unfinished == 0
    finally:
        await driver.close()
    assert driver.sent == {"batch": len(prompts)}
    return served


@pytest.mark.parametrize(
    ("prompt", "ending", "tokens", "why"),
    [
        ("well", COMPLETED, 2, ""),
        ("429", REFUSED, 0, "queue_full"),
        ("503", REFUSED, 0, "status 503"),
        ("504", REFUSED, 0, "status 504"),
        ("500", FAILED, 0, "status 500"),
        ("400", FAILED, 0, "status 400"),
        ("cut", FAILED, 0, "the stream ended early"),
        ("aborted", FAILED, 2, "aborted by the engine"),
        ("error", FAILED, 0, "engine lost"),
    ],
)
async def test_each_way_to_end_is_distinguished(prompt: str, ending: str, tokens: int, why: str, url: str) -> None:
    """Completed, refused with its reason, or failed: never lost, never retried."""
    (served,) = await drive(url, prompt)
    assert (served.class_name, served.ending, served.output_tokens, served.why) == ("batch", ending, tokens, why)
    assert served.retry_after_s == (4 if prompt == "429" else None)
    assert (served.ttft_s is not None) is (ending == COMPLETED or prompt in {"cut", "aborted"})


async def test_a_server_that_is_gone_is_a_failure() -> None:
    """One record, no exception."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        gone = f"http://127.0.0.1:{server.getsockname()[1]}"
    (served,) = await drive(gone, "well")
    assert served.ending == FAILED


async def test_many_at_once_all_end_and_carry_their_class(url: str) -> None:
    """The loop does not wait for answers."""
    SEEN.clear()
    served = await drive(url, *["well"] * 20)
    assert [one.ending for one in served] == [COMPLETED] * 20
    assert {(body["class"], body["max_tokens"], body["stream"]) for body in SEEN} == {("batch", 9, True)}


async def test_clients_of_a_closed_loop_have_one_request_each_at_a_time(url: str) -> None:
    """Never more open than clients; all that was sent has ended when the loop returns."""
    served: list[Served] = []
    opened: list[int] = []
    enough = asyncio.Event()

    def requests() -> Iterator[Arrival]:
        while True:
            opened.append(driver.unfinished)
            if len(opened) == 12:
                enough.set()
            yield Arrival(0.0, "batch", "429" if len(opened) % 5 == 0 else "well", 9)

    driver = Driver(url, "m", served.append)
    try:
        await driver.keep_busy(requests(), 3, enough)
        assert driver.unfinished == 0
    finally:
        await driver.close()
    assert len(served) == driver.sent["batch"] == len(opened) >= 12
    assert max(opened) < 3
    assert {one.ending for one in served} <= {COMPLETED, REFUSED}


async def test_lengths_are_learnt_from_completed_requests_only(url: str) -> None:
    """Prompt and answer as the server counted them; an answer that was cut says nothing."""
    lengths = TokenLengths()
    driver = Driver(url, "m", lambda one: None, lengths)
    try:
        await driver.send(Arrival(0.0, "batch", prompt, 8) for prompt in ("well", "cut", "aborted"))
        await driver.settle(20)
    finally:
        await driver.close()
    assert lengths.request(Arrival(1.0, "batch", "well", 20)) == Request(1.0, "batch", 1, 5, 20)
    assert lengths.request(Arrival(1.0, "batch", "cut", 20)).output_tokens == 20


@pytest.mark.parametrize("exact", [True, False])
async def test_an_exact_length_is_asked_of_the_engine(exact: bool, url: str) -> None:
    """Else the model may end its answer earlier."""
    SEEN.clear()
    driver = Driver(url, "m", lambda one: None)
    try:
        await driver.send([Arrival(0.0, "batch", "well", 9, exact=exact)])
        await driver.settle(20)
    finally:
        await driver.close()
    assert [body.get("ignore_eos", False) for body in SEEN] == [exact]
