"""Hostile input costs no more than its size: every place that reads it, with sizes that grow up to its bound.

Each case takes a shape, bytes that are repeated up to a size, and gives the call that reads them. Shapes are drawn, one
to three pieces one after another, from those that parsers, patterns and splitters are known to be slow on.
"""

from __future__ import annotations

import pytest
from cost_growth import peak_bytes, superlinear_growth
from hostile_answers import (
    answer,
    events,
    kind_of_answer,
    labels,
    preset_file,
    scrape,
    scrape_of_a_command,
    sent_on,
    trace_file,
    traced,
)
from hostile_requests import (
    ADMIN,
    ALLOWED,
    AS_JSON,
    AS_TEXT,
    ENTRANCE,
    PRESET,
    admin_address,
    admin_body,
    admin_header,
    admin_query,
    attempts,
    body,
    calls_of_one_id,
    header,
    in_pieces,
    many_headers,
    one_header,
    prompt,
    structure,
    through_the_entrance,
    time_out,
    token,
)
from hostile_shapes import ANY, BODY, EVENT, KIB, METRICS, PROMPT, TOML, TRACE, Reads, shapes
from hypothesis import HealthCheck, Phase, given, settings
from tiers import LONG

from headway.http.inference import timeouts
from headway.http.limits import json_shape
from headway_dashboard.sources.exposition import samples

pytestmark = pytest.mark.slow


#: Each reader of untrusted bytes; its shapes; and the sizes: from the first to the last.
CASES: dict[str, tuple[Reads, tuple[bytes, ...], int, int]] = {
    **{
        f"header {name}": (header(name), ANY, 64, 64 * KIB)
        # any other is refused for its length in the same way, and its reader is measured below
        for name in ("x-llm-d-inference-ttl", "x-stainless-read-timeout", "x-headway-class", "x-headway-tenant")
    },
    "many headers": (many_headers, ANY, KIB, 256 * KIB),
    "one long header": (one_header, ANY, KIB, 256 * KIB),
    "body of a completion": (body("/v1/completions"), BODY, 4 * KIB, KIB * KIB),
    "body of prompts": (body("/v1/completions", b'{"prompt": [', b"1]}"), BODY, 4 * KIB, KIB * KIB),
    "body of a response": (body("/v1/responses", b'{"background": true, "a": [', b"1]}"), BODY, 4 * KIB, KIB * KIB),
    "body of a batch": (body("/v1/chat/completions/batch", b'{"messages": [', b"1]}"), BODY, 4 * KIB, KIB * KIB),
    "body in escapes": (body("/v1/completions", b'{"\\u0041": "', b'"}'), BODY, 4 * KIB, KIB * KIB),
    "structure of a body": (structure, BODY, 64 * KIB, KIB * KIB),
    **{
        f"time-out in {read.__name__}": (time_out(read), ANY, KIB, 64 * KIB)
        for read in (timeouts.seconds, timeouts.milliseconds, timeouts.duration, timeouts.grpc)
    },
    "prompt of a body": (prompt, PROMPT, 4 * KIB, KIB * KIB),
    "body through the middleware": (through_the_entrance, BODY, 4 * KIB, KIB * KIB),
    "JSON in pieces": (in_pieces(ENTRANCE, "/v1/completions", AS_JSON, 64 * KIB), BODY, 16, 64 * KIB),
    "text in pieces": (in_pieces(ENTRANCE, "/tokenize", AS_TEXT, 64 * KIB), BODY, 16, 64 * KIB),
    "order in pieces": (in_pieces(ADMIN, PRESET, ALLOWED, 16 * KIB, method="PUT"), BODY, 16, 16 * KIB),
    "order": (admin_body, BODY, 256, 64 * KIB),
    "query of the admin API": (admin_query, (*ANY, b"&", b"=", b"limit=1&", b"%41"), 64, 64 * KIB),
    "address of an untrusted client": (admin_address, ANY, 64, 64 * KIB),
    **{
        f"admin header {name.decode()}": (admin_header(name), ANY, 64, 64 * KIB)
        for name in (b"authorization", b"if-match", b"content-type", b"host")
    },
    "token": (token, ANY, 64, 256 * KIB),
    "refused attempts": (attempts, ANY, 16, 2048),
    "events in small pieces": (events(16), EVENT, KIB, KIB * KIB),
    "events in large pieces": (events(64 * KIB), EVENT, 4 * KIB, 4 * KIB * KIB),
    "request sent on": (sent_on(), BODY, 4 * KIB, 2 * KIB * KIB),
    "list sent on": (sent_on(b'{"a": [', b"1]}"), BODY, 4 * KIB, 2 * KIB * KIB),
    "trace headers": (traced, ANY, 64, 64 * KIB),
    "type of an answer": (kind_of_answer, ANY, 64, 8 * KIB),
    "answer": (answer(64 * KIB), BODY, 4 * KIB, 2 * KIB * KIB),
    "answer in small pieces": (answer(64), BODY, 4 * KIB, 512 * KIB),
    "preset": (preset_file, TOML, 256, 128 * KIB),
    "trace": (trace_file, TRACE, KIB, 256 * KIB),
    "scrape of the dashboard": (scrape(lambda scraped: list(samples(scraped))), METRICS, KIB, 256 * KIB),
    "scrape of the command": (scrape(scrape_of_a_command), METRICS, KIB, 256 * KIB),
    "labels for the dashboard": (labels(lambda scraped: list(samples(scraped))), (b"x",), 256, 64 * KIB),
    "labels for the command": (labels(scrape_of_a_command), (b"x",), 256, 64 * KIB),
    "calls of one id": (calls_of_one_id, ANY, 16, 4096),
}

#: Random shapes of each, beside the known one.
SHAPES = 10 if LONG else 1

BLANKS = b" " * 500
#: Shapes that were found to cost the square of their size, or look as if they might; each is tried at every run.
KNOWN = {
    "header x-llm-d-inference-ttl": (b"1",),
    "body of a completion": (
        b'"max_tokens"' + 2 * BLANKS, b'"max_tokens"' + BLANKS + b":" + BLANKS, b'"stream"' + BLANKS + b":" + BLANKS,
        b'"max_tokens":1,', b'"max_', b"1", b'\\u0041', b'\\u004', b"\\", b'"', b"{},", b"[", b"1,", b";base64,",
        b'data:;base64,A","', b'x", "service_tier": "',
    ),
    "structure of a body": (b'"', b"\\", b"{},", b"[", b"1,"),
    "prompt of a body": (
        b'"prompt"' + BLANKS + b":" + BLANKS, b'"model"' + BLANKS + b":" + BLANKS, b'"messages"' + 2 * BLANKS,
        b'"cache_salt":"', b'"messages":"instructions":"input":',
    ),
    **dict.fromkeys((f"time-out in {name}" for name in ("seconds", "milliseconds", "duration", "grpc")), (b"1", b"1s")),
    "events in small pieces": (b"x",),
    "type of an answer": (b'"',),
    "preset": (b"a.",),
    "calls of one id": (b"x",),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_cost_grows_no_faster_than_the_size(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever shape the bytes have: sixteen times as many cost at most forty times as much."""
    reads, units, first, last = CASES[case]
    for bound in ("MAX_BRACKETS", "MAX_STRINGS", "MAX_COMMAS", "MAX_BARE_BYTES", "MAX_DEPTH"):
        monkeypatch.setattr(json_shape, bound, 1 << 60)

    def grows(shape: bytes) -> None:
        assert superlinear_growth(lambda size: reads(shape, size), first, last) == "", shape

    for shape in KNOWN.get(case, units[:1]):
        grows(shape)
    limits = settings(max_examples=SHAPES, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    limits(given(shapes(units))(grows))()


@pytest.mark.parametrize("shape", [b"x", b'"', b"1,", b"{},"])
def test_an_answer_holds_no_more_than_its_size_while_it_comes(shape: bytes) -> None:
    """Memory grows in proportion to what the other model sends, in however small pieces."""
    small, large = (peak_bytes(answer(64)(shape, size)) for size in (16 * KIB, 256 * KIB))
    assert large <= 40 * max(small, 64 * KIB)
