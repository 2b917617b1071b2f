"""``headway batch``: the lines of a file as requests of the class batch, and their answers in another file."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator
from hashlib import blake2b
from http import HTTPStatus
from pathlib import Path
from typing import IO, Final

import aiohttp
import msgspec

from headway.api import BadUrlError
from headway.openai.batch_file import (
    MAX_LINE_BYTES,
    REFUSALS,
    BatchLine,
    LineError,
    again_after_s,
    answer_line,
    read_line,
)
from headway_tools.console import Exit, FailedError, ServerUnreachableError, UsageError, add_url
from headway_tools.console.bar import Bar
from headway_tools.console.parser import whole
from headway_tools.load.api_key import add_send_key, key_for

NAME = "batch"
SUMMARY = "Send the lines of a file in the capacity that other requests leave, and write the answers to another file."
EPILOG = """\
examples:
  headway batch requests.jsonl                       the answers go to requests.out.jsonl
  headway batch requests.jsonl --out answers.jsonl   repeat the command to continue after a stop

A line is one of OpenAI's Batch API: {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {...}}
A line whose custom_id is in the output is not sent again. A line refused for lack of capacity is repeated until the
server takes it, a line with another server error three times. The server needs no folder for batches. The API key in
VLLM_API_KEY or OPENAI_API_KEY is sent to a server on this machine or at OPENAI_BASE_URL.
exit codes: 0 done   1 a line has an error for an answer, or all were refused   2 a wrong line or usage
            3 not reachable
"""

_CLASS: Final = "batch"
_KEEP_ALIVE_S: Final = 2.0
#: What is wrong for one line is wrong for all: nothing is written of it.
_OF_ALL: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the requests, a line each")
    parser.add_argument("--out", metavar="FILE", help="the answers (default: FILE, ending with .out.jsonl)")
    parser.add_argument(
        "--in-flight", metavar="N", type=whole, default=32, help="lines in flight at once (default: 32)"
    )
    add_url(parser)
    add_send_key(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Send what has no answer yet."""
    path = Path(chosen.file)
    if not path.name:
        raise UsageError(f"{chosen.file!r}: is no file of requests")
    out = path.with_name(path.name.removesuffix(".jsonl") + ".out.jsonl") if chosen.out is None else Path(chosen.out)
    if out.absolute() == path.absolute():
        raise UsageError(f"{out}: is the file of the requests; name another with --out")
    try:
        total = _check(path)
        answers = out.open("a+b")
    except OSError as error:
        raise UsageError(f"{error.filename or path}: {error.strerror or error}") from None
    try:
        with answers, Bar(sys.stderr) as bar:
            sender = _Sender(chosen.url, key_for(chosen.url, os.environ, send=chosen.send_key), answers, bar, total)
            asyncio.run(sender.send(path, max(1, chosen.in_flight)))
    except OSError as error:
        raise FailedError(f"{out}: {error.strerror or error}") from None
    except KeyboardInterrupt:
        print(f"{out}: interrupted; the same command goes on where this one ended", file=sys.stderr)
        raise
    print(f"{out}: {sender.there} were there, {sender.good} answers and {sender.bad} errors are new")
    return Exit.FAILED if sender.bad else Exit.OK


class _Sender:
    """Sends lines and writes what comes back; ``there`` counts the answers of an earlier run."""

    def __init__(self, url: str, key: str | None, answers: IO[bytes], bar: Bar, total: int) -> None:
        self._url, self._answers, self._bar, self._total = url.rstrip("/").removesuffix("/v1"), answers, bar, total
        self._headers = {"content-type": "application/json", "x-headway-class": _CLASS}
        self._headers |= {} if key is None else {"authorization": f"Bearer {key}"}
        self._over = _over(answers)
        self.there, self.good, self.bad = len(self._over), 0, 0

    async def send(self, path: Path, at_once: int) -> None:
        """Send all lines that are not over, so many at once. Raises BadUrlError, ServerUnreachableError."""
        todo = ((number, line) for number, line in _lines(path) if _digest(line.custom_id) not in self._over)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_S)
        async with aiohttp.ClientSession(headers=self._headers, timeout=timeout, connector=connector) as session:
            working = [asyncio.create_task(self._work(session, todo)) for _ in range(at_once)]
            try:
                await asyncio.gather(*working)
            except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
                raise BadUrlError(self._url) from None
            except (aiohttp.ClientError, UnicodeError) as error:  # the latter: no name of a host
                text = f"{self._url}: {error or type(error).__name__}; the same command goes on where this one ends"
                raise ServerUnreachableError(text) from None
            finally:
                for task in working:
                    task.cancel()
                await asyncio.gather(*working, return_exceptions=True)

    async def _work(self, session: aiohttp.ClientSession, todo: Iterator[tuple[int, BatchLine]]) -> None:
        for number, line in todo:
            written, good = await self._ask(session, number, line)
            self._answers.write(written)
            self._answers.flush()
            self.good += good
            self.bad += not good
            over = self.there + self.good + self.bad
            self._bar.show(f"{over} of {self._total} lines, {self.bad} errors", over / self._total)

    async def _ask(self, session: aiohttp.ClientSession, number: int, line: BatchLine) -> tuple[bytes, bool]:
        tries = 0
        while True:
            async with session.post(self._url + line.url, data=bytes(line.body)) as reply:
                body, headers, status = await reply.read(), reply.headers, reply.status
            if status in _OF_ALL or b'"unknown_class"' in body[:500]:
                text = body[:300].decode(errors="replace")
                raise FailedError(f"{self._url}: {status}, and so for every line: {text}")
            wait_s = again_after_s(status, headers, tries)
            if wait_s is None:
                return answer_line(number, line.custom_id, status, headers.get("x-request-id", ""), body), reply.ok
            tries += status not in REFUSALS
            await asyncio.sleep(wait_s)


def _lines(path: Path) -> Iterator[tuple[int, BatchLine]]:
    """The lines of a file, with their numbers. Raises UsageError."""
    number = 0
    with path.open("rb") as file:
        while text := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(text) > MAX_LINE_BYTES:
                raise UsageError(f"{path}: line {number}: a line has at most {MAX_LINE_BYTES} bytes")
            if text.strip():
                try:
                    yield number, read_line(text)
                except LineError as error:
                    raise UsageError(f"{path}: line {number}: {error.message}") from None


def _check(path: Path) -> int:
    """The number of lines, each of which can be sent. Raises UsageError."""
    first: dict[bytes, int] = {}
    for number, line in _lines(path):
        if (other := first.setdefault(_digest(line.custom_id), number)) != number:
            raise UsageError(f"{path}: line {number}: the custom_id is that of line {other} already")
    if not first:
        raise UsageError(f"{path}: has no lines")
    return len(first)


def _over(answers: IO[bytes]) -> set[bytes]:
    """The ids of the lines that are over, as digests; a torn last line is taken away."""
    over, at = set[bytes](), 0
    answers.seek(0)
    for text in answers:
        if not text.endswith(b"\n"):
            answers.truncate(at)
            break
        at += len(text)
        try:
            over.add(_digest(str(msgspec.json.decode(text)["custom_id"])))
        except (msgspec.MsgspecError, LookupError, TypeError):
            raise UsageError(f"{answers.name}: is no output of a batch; name another with --out") from None
    return over


def _digest(custom_id: str) -> bytes:
    return blake2b(custom_id.encode(), digest_size=16).digest()
