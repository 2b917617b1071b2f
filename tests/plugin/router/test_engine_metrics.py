"""The metrics of a server that this process has started, beside its own."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from instance_pools import pool_of
from prometheus_client.parser import text_string_to_metric_families
from virtual_time import on_virtual_time

from headway.router.addresses import Address
from headway.router.engine import InstancesEngine
from headway.router.engine_metrics import EngineMetrics, families, other_families

OWN = """\
# HELP process_open_fds Number of open file descriptors.
# TYPE process_open_fds gauge
process_open_fds 9.0
# HELP headway_limit Seats.
# TYPE headway_limit gauge
headway_limit{kind="live"} 4.0
"""
OF_ENGINE = """\
# HELP vllm:prompt_tokens_total Tokens.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0"} 3.0
# HELP process_open_fds Number of open file descriptors.
# TYPE process_open_fds gauge
process_open_fds 70.0
# HELP http_seconds Time.
# TYPE http_seconds histogram
http_seconds_bucket{le="1.0"} 2.0
http_seconds_bucket{le="+Inf"} 2.0
http_seconds_count 2.0
http_seconds_sum 1.5
"""


class Scraped:
    """A client of instances: what each answers a scrape with."""

    def __init__(self, answers: Mapping[str, tuple[int, str] | Exception]) -> None:
        self.answers = answers

    async def get(self, address: Address, path: str, within_s: float) -> tuple[int, str]:
        assert path == "/metrics"
        answer = self.answers[address.name]
        if isinstance(answer, Exception):
            raise answer
        return answer


def metrics(answers: Mapping[str, tuple[int, str] | Exception], *, healthy: bool = True) -> EngineMetrics:
    """Those of servers with these answers."""
    pool = pool_of(*answers, heard=healthy)
    return EngineMetrics(InstancesEngine(pool, Scraped(answers)))  # type: ignore[arg-type]


def test_a_family_that_is_known_is_left_out_with_all_its_samples() -> None:
    """Comments and samples; the order of the others stays."""
    left = list(other_families(OF_ENGINE, frozenset({"http_seconds", "process_open_fds"})))
    assert left == OF_ENGINE.splitlines()[:3]
    assert families(OF_ENGINE) == {"vllm:prompt_tokens_total", "process_open_fds", "http_seconds"}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("# HELP a Words of help, HELP and TYPE among them.", {"a"}),
        ("# TYPE a counter", {"a"}),
        ("# HELP a", {"a"}),
        ("# EOF", set()),
        ("# UNIT a seconds", set()),
        ("a 1.0 1700000000000", set()),
        ("TYPE HELP a", set()),
        ("", set()),
    ],
)
def test_a_family_is_named_by_its_comments_alone(line: str, named: set[str]) -> None:
    """Not by samples, which may have a time behind their value."""
    assert families(line) == named
    left = list(other_families(f"# TYPE b gauge\n{line}\nb 1.0\n", frozenset(named)))
    assert left == ["# TYPE b gauge", *([] if named else [line] if line else []), *([] if named else ["b 1.0"])]


@on_virtual_time
async def test_each_family_stands_once_and_a_parser_reads_all_of_them() -> None:
    """The router's own win."""
    text = OWN + await metrics({"a": (200, OF_ENGINE)}).beside(OWN)
    found = {one.name: one for one in text_string_to_metric_families(text)}
    assert set(found) == {"process_open_fds", "headway_limit", "vllm:prompt_tokens", "http_seconds"}
    assert text.count("# TYPE process_open_fds") == 1
    assert found["process_open_fds"].samples[0].value == 9.0
    assert [sample.name for sample in found["http_seconds"].samples].count("http_seconds_bucket") == 2


@on_virtual_time
async def test_one_that_does_not_answer_is_passed_over() -> None:
    """Where another one answers, its figures are taken."""
    answers: dict[str, tuple[int, str] | Exception] = {
        "slow": TimeoutError(), "gone": ConnectionRefusedError(), "wrong": (500, "no"), "well": (200, OF_ENGINE),
    }  # fmt: skip
    assert "vllm:prompt_tokens_total" in await metrics(answers).beside(OWN)
    del answers["well"]
    assert await metrics(answers).beside(OWN) == ""


@on_virtual_time
async def test_without_a_healthy_one_there_are_the_routers_own() -> None:
    """The engine is being started: nobody is asked."""
    assert await metrics({"a": AssertionError("nobody asks")}, healthy=False).beside(OWN) == ""
