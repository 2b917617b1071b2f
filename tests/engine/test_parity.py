"""The same requests to a server inside one engine and to one in front of plain vLLM: they are answered alike.

Status, headers, error body, form of the answer, use, charge and outcome; what differs by design is named here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from engine_parts import long_form
from parity_corpus import Asked, corpus
from parity_observer import observe
from running_router import RunningRouter
from running_server import TINY_MODEL, RunningServer

from headway.keys import add_key

pytestmark = long_form("two servers for each of two corpora; tests/plugin/router has what differed before")

TENANTS: dict[str, dict[str, Any]] = {
    "top": {},
    "low": {"classes": ["batch"], "default_class": "batch"},
    "slow": {"requests_per_minute": 3, "tokens_per_minute": 2000},
    "capped": {},
}
_TOKENS_LEFT, _ESTIMATED_TOKENS = "x-ratelimit-remaining-tokens", 40
CAPS = "caps = { output_tokens = 5, sequences = 2 }\n"


class BareServer(RunningServer):
    """Ready when vLLM's own health route says so."""

    ready_path = "/health"


@dataclass(frozen=True, slots=True)
class Pair:
    """Both servers, and the key of each tenant."""

    inside: RunningServer
    front: RunningRouter
    keys: Mapping[str, str]


@pytest.fixture(scope="module")
def bare(real_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """vLLM without Headway."""
    vllm = str(Path(sys.executable).with_name("vllm"))
    command = [vllm, "serve", str(TINY_MODEL), "--served-model-name", "tiny", "--max-num-seqs", "64"]
    with BareServer(command, tmp_path_factory.mktemp("bare") / "vllm.log", {"VLLM_PLUGINS": "none"}) as server:
        yield server


@pytest.fixture(scope="module", params=["open", "keys"])
def pair(
    request: pytest.FixtureRequest, bare: RunningServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """Without keys, and with a file of them."""
    folder = tmp_path_factory.mktemp("pair")
    environment, keys = dict[str, str](), dict[str, str]()
    if request.param == "keys":
        path, now = folder / "keys.toml", datetime.now(UTC)
        keys = {name: add_key(str(path), name, now=now, settings=terms).text for name, terms in TENANTS.items()}
        head = "[tenants.capped]\n"
        path.write_text(path.read_text().replace(head, head + CAPS))
        environment = {"HEADWAY_KEYS_FILE": str(path), "HEADWAY_TRUSTED_PROXIES": ""}
    with ExitStack() as stack:
        flags = ("--preset", "balanced", "--no-warmup")
        inside = stack.enter_context(RunningServer.headway(folder / "inside.log", *flags, **environment))
        before = RunningRouter.before(
            folder / "front.log", [bare.url], "--preset", "balanced", "--seats", "64", **environment
        )
        yield Pair(inside, stack.enter_context(before), keys)


def _asked_by(keys: Mapping[str, str]) -> Iterator[tuple[str | None, Asked]]:
    """All of it without keys; with keys each tenant a part, and one part without a key."""
    if not keys:
        yield from ((None, one) for one in corpus())
        return
    callers = (None, *keys)
    for at, name in enumerate(callers):
        yield from ((name, one) for one in corpus()[at :: len(callers)])


def _by_design(asked: Asked, inside: dict[str, Any], front: dict[str, Any]) -> bool:
    """Whether the two may differ so."""
    differ = {name for name in inside.keys() | front.keys() if inside.get(name) != front.get(name)}
    if differ == {"outcomes"}:  # vLLM reads a body before its engine has a request; in front that takes a seat
        invalid = all(name.endswith(" rejected_invalid") for name in front["outcomes"])
        return 400 <= inside["status"] < 500 and not inside["outcomes"] and invalid
    if differ == {"rates"}:  # of a stream that does not say its use the prompt is estimated
        left = [int(seen["rates"].pop(_TOKENS_LEFT, "0")) for seen in (inside, front)]
        return inside["rates"] == front["rates"] and abs(left[0] - left[1]) <= _ESTIMATED_TOKENS
    if differ == {"body"} and inside["status"] == front["status"] == 400:  # the words of another server
        return asked.name in ("as text", "background") or asked.name.startswith("prompt many")
    return asked.path in ("/load", "/v1/responses/abc/cancel") and front["status"] == 404


def test_both_answer_the_same_requests_alike(pair: Pair) -> None:
    """More than 350 of them, one after the other."""
    wrong = list[str]()
    count = 0
    for tenant, asked in _asked_by(pair.keys):
        key = None if tenant is None else pair.keys[tenant]
        inside, front = observe(pair.inside, asked, key), observe(pair.front, asked, key)
        count += 1
        if inside != front and not _by_design(asked, inside, front):
            differ = {name: (inside.get(name), front.get(name)) for name in inside if inside[name] != front.get(name)}
            wrong.append(f"{tenant} {asked.label}: {differ}")
    assert not wrong, "\n".join(wrong)
    assert count > 350
