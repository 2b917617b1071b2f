"""What the doctor says of flags that make an engine smaller or slower than vLLM would."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

import pytest

from headway_tools.doctor import engine_flags
from headway_tools.doctor.engine_flags import CPU_SEATS, GPU_SEATS, LARGE_GPU_SEATS, check_engine_flags, vllms_seats


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM's CPU build."""
    monkeypatch.setattr(engine_flags, "cpu_backend", lambda: True)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (Namespace(), []),
        (Namespace(max_num_seqs=None, enforce_eager=False), []),
        (Namespace(max_num_seqs=128), []),
        (Namespace(max_num_seqs=16), ["--max-num-seqs 16: the engine runs at most 16 sequences"]),
        (Namespace(max_num_seqs=200, workers=2), ["vLLM's own number here is 256"]),
        (Namespace(enforce_eager=True), ["--enforce-eager: the model is not compiled"]),
        (Namespace(max_num_seqs=1, enforce_eager=True), ["at most 1 sequences", "each token takes longer"]),
    ],
    ids=["nothing", "not given", "as many", "fewer", "two workers", "eager", "both"],
)
def test_each_choice_below_vllms_own_is_information_with_its_price(
    args: Namespace, words: list[str], on_cpu: None
) -> None:
    """No error and no warning: it may be what the user wants."""
    found = list(check_engine_flags(args))
    assert [one.severity for one in found] == ["info"] * len(words)
    assert all(part in one.what and one.remedy for part, one in zip(words, found, strict=True))


@pytest.mark.parametrize(
    ("lines", "seats"),
    [
        (["NVIDIA H100 80GB HBM3, 81559 MiB, 81000 MiB, 570.1"], LARGE_GPU_SEATS),
        (["NVIDIA A100-SXM4-80GB, 81920 MiB, 81000 MiB, 570.1"], GPU_SEATS),
        (["NVIDIA L4, 23034 MiB, 22000 MiB, 570.1", "NVIDIA H100, 81559 MiB, 81000 MiB, 570.1"], GPU_SEATS),
        (["NVIDIA GB10, [N/A], [N/A], 570.1"], GPU_SEATS),
        ([], GPU_SEATS),
    ],
    ids=["large", "an A100", "the first one counts", "no memory said", "none"],
)
def test_vllms_own_number_is_that_of_its_hardware(
    lines: Sequence[str], seats: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the memory of the first GPU."""
    monkeypatch.setattr(engine_flags, "cpu_backend", lambda: False)
    monkeypatch.setattr(engine_flags, "gpus", lambda: lines)
    assert vllms_seats(Namespace()) == seats


def test_a_driver_that_does_not_answer_is_a_usual_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its silence is a finding of another check."""

    def fail() -> list[str]:
        raise OSError("no driver")

    monkeypatch.setattr(engine_flags, "cpu_backend", lambda: False)
    monkeypatch.setattr(engine_flags, "gpus", fail)
    assert vllms_seats(Namespace()) == GPU_SEATS


@pytest.mark.engine
def test_the_number_for_a_cpu_is_the_one_that_the_installed_vllm_chooses(real_engine: None) -> None:
    """For one worker and for two."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.platforms import current_platform
    from vllm.usage.usage_lib import UsageContext

    if not current_platform.is_cpu():
        pytest.skip("vLLM's GPU build is installed")
    for workers in (1, 2):
        _, seats = EngineArgs.get_batch_defaults(workers)
        assert seats[UsageContext.OPENAI_API_SERVER] == CPU_SEATS * workers
