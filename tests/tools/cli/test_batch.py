"""`headway batch`: each line once, over several runs of the command."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from batch_server import requests

from headway_tools.cli import INTERRUPTED, batch, main
from headway_tools.console import Exit


class Handler(BaseHTTPRequestHandler):
    """Refuses every other request once, the number 4 with an error, and answers 400 to the number 3."""

    asked: list[tuple[int, str | None]]
    paths: set[str]

    def do_POST(self) -> None:
        self.paths.add(self.path)
        number = json.loads(self.rfile.read(int(self.headers["content-length"])))["number"]
        first = number % 2 == 0 and (number, self.headers["x-headway-class"]) not in self.asked
        self.asked.append((number, self.headers["x-headway-class"]))
        locked = self.headers["authorization"] == "Bearer wrong"
        self.send_response(401 if locked else (502 if number == 4 else 429) if first else 400 if number == 3 else 200)
        self.send_header("retry-after", "0")
        self.end_headers()
        self.wfile.write(b'{"number": %d}' % number)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[tuple[str, list[tuple[int, str | None]]]]:
    Handler.asked, Handler.paths = [], set()
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}", Handler.asked
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_a_file_is_sent_and_goes_on(tmp_path: Path, server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A line that is refused, or meets an error of the server, comes again; a torn line of the output is sent anew."""
    url, asked = server
    path, out = tmp_path / "in.jsonl", tmp_path / "answers.jsonl"
    path.write_bytes(requests(10))
    assert main(["batch", str(path), "--out", str(out), "--url", url]) == Exit.FAILED
    assert "0 were there, 9 answers and 1 errors are new" in capsys.readouterr().out
    lines = out.read_bytes().splitlines(keepends=True)
    assert {json.loads(line)["custom_id"] for line in lines} == {f"r{number}" for number in range(10)}
    assert {name for _, name in asked} == {"batch"}
    out.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    asked.clear()
    main(["batch", str(path), "--out", str(out), "--url", url])
    lost = json.loads(lines[-1])["custom_id"]
    assert {f"r{number}" for number, _ in asked} == {lost}
    assert [json.loads(line)["custom_id"] for line in out.read_bytes().splitlines()].count(lost) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (requests(2) + requests(1), "line 3: the custom_id is that of line 1 already"), (b"{", "line 1: "),
        (b"", "has no lines"),
    ],
    ids=["twice", "torn", "empty"],
)  # fmt: skip
def test_a_wrong_file_is_named(tmp_path: Path, text: bytes, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With its line, before anything is sent or written."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(text)
    assert main(["batch", str(path)]) == Exit.USAGE
    assert said in capsys.readouterr().err
    assert not (tmp_path / "in.out.jsonl").exists()


@pytest.mark.parametrize(
    ("name", "out"),
    [
        ("in.jsonl", "in.out.jsonl"),
        ("in.2026-10-01", "in.2026-10-01.out.jsonl"),
        ("in.jsonl.aa", "in.jsonl.aa.out.jsonl"),
    ],
)
def test_each_file_has_answers_of_its_own(
    tmp_path: Path, server: Any, name: str, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the last part of its name is."""
    monkeypatch.setenv("VLLM_API_KEY", "right")
    (tmp_path / name).write_bytes(requests(1))
    main(["batch", str(tmp_path / name), "--url", server[0]])
    assert (tmp_path / out).exists()


@pytest.mark.parametrize(
    ("file", "out"), [("gone.jsonl", "o"), ("", "o"), ("in.jsonl", "gone/o")], ids=["gone", "a folder", "no folder"]
)
def test_a_file_that_cannot_be_opened_is_wrong_usage(
    tmp_path: Path, file: str, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is sent."""
    (tmp_path / "in.jsonl").write_bytes(requests(1))
    assert main(["batch", str(tmp_path / file), "--out", str(tmp_path / out)]) == Exit.USAGE
    assert re.search("No such file or directory|Is a directory", capsys.readouterr().err)


@pytest.mark.parametrize("url", ["", "foo", "127.0.0.1:8000", "ftp://h", "http://h:99999"])
def test_what_is_no_url_is_wrong_usage(tmp_path: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As for the other commands: not taken for a server that is down."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(requests(1))
    assert main(["batch", str(path), "--url", url]) == Exit.USAGE
    assert f"not a URL of a server, such as http://127.0.0.1:8000: {url!r}" in capsys.readouterr().err


def test_the_base_url_of_an_sdk_is_that_of_the_server(tmp_path: Path, server: Any) -> None:
    """With its /v1, which the lines have too."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(requests(1))
    assert main(["batch", str(path), "--url", f"{server[0]}/v1/"]) == Exit.OK
    assert Handler.paths == {"/v1/chat/completions"}


def test_a_host_that_is_none_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What no name of a machine can be."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(requests(1))
    assert main(["batch", str(path), "--url", "http://vllm..internal:8000"]) == Exit.UNREACHABLE
    assert "http://vllm..internal:8000: " in capsys.readouterr().err


@pytest.mark.parametrize("file", ["", ".", "/"])
def test_what_is_no_file_is_wrong_usage(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As a variable that is not set."""
    assert main(["batch", file]) == 2
    assert f"{file!r}: is no file of requests" in capsys.readouterr().err


def test_a_server_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(requests(1))
    assert main(["batch", str(path), "--url", "http://127.0.0.1:1"]) == Exit.UNREACHABLE
    assert "goes on where this one ends" in capsys.readouterr().err


def test_a_wrong_key_is_no_answer(
    tmp_path: Path, server: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command stops, and nothing is in the output: the right key goes on from there."""
    monkeypatch.setenv("VLLM_API_KEY", "wrong")
    path = tmp_path / "in.jsonl"
    path.write_bytes(requests(10))
    assert main(["batch", str(path), "--url", server[0], "--in-flight", "2"]) == Exit.FAILED
    assert "401, and so for every line" in capsys.readouterr().err
    assert (tmp_path / "in.out.jsonl").read_bytes() == b""
    assert len(server[1]) <= 4


def test_an_interrupted_command_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the same words, which send what has no answer yet."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(requests(3))
    monkeypatch.setattr(batch._Sender, "send", _interrupted)
    assert main(["batch", str(path)]) == INTERRUPTED
    assert "in.out.jsonl: interrupted; the same command goes on" in capsys.readouterr().err


async def _interrupted(*_: Any) -> None:
    raise KeyboardInterrupt
