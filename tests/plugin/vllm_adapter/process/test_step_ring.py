"""The ring of steps: written by EngineCore, and read by the process with the queue."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from progress_file import prepared_file

from headway.vllm_adapter.process.progress import VARIABLE, ring_start
from headway.vllm_adapter.process.step_ring import RING_STEPS, EngineStep, StepRing, StepRingReader
from headway_policies.limits import RankLoad

#: Writes so many steps, each of which has its number in every field.
_WRITER = """
import sys
from pathlib import Path
from headway.vllm_adapter.process.step_ring import EngineStep, StepRing
ring = StepRing(Path(sys.argv[1]), 0)
for number in range(1, int(sys.argv[2]) + 1):
    ring.write(EngineStep(float(number), float(number), *[number] * 7))
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file between them, as the server prepares it."""
    return prepared_file(tmp_path, monkeypatch)


def step(number: int, **changed: float) -> EngineStep:
    """A step that is known by its number of prompt tokens."""
    return EngineStep(0.02, 0.5, 4, 1, 0, number, 0, 0, 4)._replace(**changed)


def numbers(reader: StepRingReader) -> list[int]:
    """Those of the steps that are new to a reader."""
    return [load.prefill_tokens for load, _ in reader.read()]


def test_each_step_is_read_once_and_in_order(file: Path) -> None:
    """Nothing while there is none; a reader that begins later has those that the ring still holds."""
    ring, reader = StepRing(file, 0), StepRingReader(file, 1)
    assert numbers(reader) == []
    ring.write(step(1))
    ring.write(step(2))
    assert numbers(reader) == [1, 2]
    assert numbers(reader) == []
    ring.write(step(3))
    assert numbers(reader) == [3]
    assert numbers(StepRingReader(file, 1)) == [1, 2, 3]


def test_a_step_is_a_load_of_all_ranks(file: Path) -> None:
    """The sequences of all of them by the last step of each, the KV use of the fullest; times and tokens of the one."""
    rings, reader = [StepRing(file, rank) for rank in range(2)], StepRingReader(file, 2)
    rings[0].write(step(8, first_tokens=1, preemptions=2, deferred=1))
    rings[1].write(step(0, step_s=0.0, kv_usage_ratio=0.75, running=2, waiting=0, sequences=3))
    (first, in_first), (second, in_second) = reader.read()
    assert (first.running, first.waiting, first.deferred, first.kv_usage_ratio) == (4, 1, 1, 0.5)
    assert (first.inter_token_s, first.first_tokens, first.preemptions, in_first) == (0.02, 1, 2, 4)
    assert (second.running, second.waiting, second.deferred, second.kv_usage_ratio) == (6, 1, 1, 0.75)
    assert (second.inter_token_s, second.prefill_tokens, in_second) == (None, 0, 3)
    assert (first.own, second.rank, second.own) == (None, 1, RankLoad(2, 0, 0, 0.75))


@pytest.mark.parametrize("unread", [RING_STEPS, RING_STEPS + 1, 5 * RING_STEPS + 7])
def test_a_slow_reader_goes_on_with_what_is_left(file: Path, unread: int) -> None:
    """The whole ring where nothing was overwritten, else the newer half of it; then each step again."""
    ring, reader = StepRing(file, 0), StepRingReader(file, 1)
    for number in range(1, unread + 1):
        ring.write(step(number))
    read = numbers(reader)
    assert read == list(range(read[0], unread + 1))
    assert len(read) == RING_STEPS if unread == RING_STEPS else RING_STEPS // 2 <= len(read) < RING_STEPS
    ring.write(step(unread + 1))
    assert numbers(reader) == [unread + 1]


def test_what_is_being_written_is_read_later(file: Path) -> None:
    """A step half written fails its checksum, and so does what an engine left in the middle of it."""
    ring, reader = StepRing(file, 0), StepRingReader(file, 1)
    ring.write(step(1))
    ring.write(step(2))
    torn = ring_start(0) + 2 * 64 + 40
    whole = file.read_bytes()[torn]
    ring._ring[2 * 64 + 40] = whole ^ 1
    assert numbers(reader) == [1]
    assert numbers(reader) == []
    ring._ring[2 * 64 + 40] = whole
    assert numbers(reader) == [2]


def test_an_engine_in_place_of_another_goes_on_with_its_numbers(file: Path) -> None:
    """Also over a record that the one before left half written."""
    ring, reader = StepRing(file, 0), StepRingReader(file, 1)
    for number in range(1, RING_STEPS + 3):
        ring.write(step(number))
    numbers(reader)
    ring._ring[2 * 64 + 40] ^= 1
    other = StepRing(file, 0)
    other.write(step(7))
    other.write(step(8))
    assert numbers(reader) == [8]
    other.write(step(9))
    assert numbers(reader) == [9]


def test_a_reader_beside_a_writing_process_has_only_whole_steps(file: Path) -> None:
    """In their order, each at most once, and the last one: of a process that writes as fast as it can."""
    written, reader, seen = 30 * RING_STEPS, StepRingReader(file, 1), list[int]()
    with subprocess.Popen([sys.executable, "-c", _WRITER, str(file), str(written)]) as writer:
        while writer.poll() is None or not seen or seen[-1] < written:
            for load, sequences in reader.read():
                fields = (load.inter_token_s, load.kv_usage_ratio, load.running, load.deferred, load.first_tokens)
                assert {*fields, load.prefill_tokens, sequences} == {sequences}
                seen.append(sequences)
            assert writer.returncode in (None, 0)
    assert seen == sorted(set(seen))


def test_without_the_file_there_is_no_ring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A file of another size counts as none."""
    monkeypatch.setenv(VARIABLE, "/nowhere")
    assert StepRingReader.from_environment(1) is None
    (tmp_path / "short").write_bytes(bytes(64))
    monkeypatch.setenv(VARIABLE, str(tmp_path / "short"))
    assert StepRingReader.from_environment(1) is None
    assert caplog.text.count("the engine's steps cannot be read, and are counted by its answers") == 2
