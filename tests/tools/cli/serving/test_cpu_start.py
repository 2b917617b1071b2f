"""What ``headway serve`` chooses on vLLM's CPU backend, for machines that are described here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headway_tools.cli.serving.cpu_start import choose, workers
from headway_tools.console import Machine

GIB = 2**30
SMALL = Machine(cores=(0, 1), cpus=2.0, node_bytes=(17 * GIB,), group_bytes=None, compiles=True)
LARGE = Machine(cores=tuple(range(32)), cpus=32.0, node_bytes=(100 * GIB, 90 * GIB), group_bytes=None, compiles=True)
SPACE, EAGER, BIND = "VLLM_CPU_KVCACHE_SPACE", "TORCHDYNAMO_DISABLE", "VLLM_CPU_OMP_THREADS_BIND"


def test_on_a_small_machine_the_memory_alone_is_chosen_in_one_line() -> None:
    """17 GiB free, 3 for vLLM's processes: half of the other 14. It compiles, and binds its threads, as vLLM does."""
    chosen = choose(SMALL, ["m"], "", {})
    assert (chosen.environment, chosen.flags, chosen.warning) == ({SPACE: "7"}, (), None)
    assert chosen.line() == "VLLM_CPU_KVCACHE_SPACE=7 (GiB, of 17.0 free); set your own to override"


def test_each_further_api_server_takes_memory_of_its_own() -> None:
    """17 GiB free, 3 for vLLM's processes, 2 for two more API servers: half of the other 12."""
    assert choose(SMALL, ["m", "--api-server-count", "3"], "", {}).environment[SPACE] == "6"
    assert choose(SMALL, ["m"], "api-server-count: 3\n", {}).environment[SPACE] == "6"


def test_the_node_with_the_least_memory_counts() -> None:
    """90 GiB free, 3 for vLLM's processes: half of the other 87."""
    assert choose(LARGE, ["m"], "", {}).environment == {SPACE: "43"}


@pytest.mark.parametrize("cores", [1, 2, 8, 32])
def test_the_number_of_cores_decides_nothing(cores: int) -> None:
    """A compiled start takes longer on few of them; its tokens are faster all the same."""
    machine = replace(SMALL, cores=tuple(range(cores)), cpus=float(cores))
    assert choose(machine, ["m"], "", {}) == choose(SMALL, ["m"], "", {})


@pytest.mark.parametrize(
    ("environ", "engine", "config", "left_alone"),
    [
        pytest.param({SPACE: "2"}, [], "", {SPACE}, id="space"),
        pytest.param({}, ["--kv-cache-memory-bytes=1G"], "", {SPACE}, id="space as a flag"),
        pytest.param({}, ["--gpu-memory-utilization", "0.5"], "", {SPACE}, id="a share of all memory"),
        pytest.param({}, [], "gpu_memory_utilization: 0.5\n", {SPACE}, id="a share in the file"),
        pytest.param({BIND: "0-1"}, [], "", {BIND}, id="cores"),
        pytest.param({EAGER: "0"}, [], "", {EAGER, "--enforce-eager"}, id="compile, by variable"),
        pytest.param({}, ["-O2"], "", {"--enforce-eager"}, id="compile, by level"),
        pytest.param({}, [], "enforce-eager: false\n", {"--enforce-eager"}, id="compile, in the file"),
    ],
)
def test_what_the_user_chose_is_left_alone(
    environ: dict[str, str], engine: list[str], config: str, left_alone: set[str]
) -> None:
    """By variable, by flag or in vLLM's configuration file; everything else that this machine needs is still chosen."""
    needy = replace(SMALL, cores=(4, 5, 6, 7, 8), cpus=5.0, compiles=False)
    chosen = choose(needy, ["m", "-tp", "2", *engine], config, environ)
    assert {*chosen.environment, *chosen.flags} == {SPACE, EAGER, BIND, "--enforce-eager"} - left_alone
    for name in left_alone:
        assert f"{name}=" not in chosen.line()
        assert f"{name} " not in chosen.line()


def test_nothing_left_to_choose_is_no_line() -> None:
    """All of it is the user's, or vLLM's."""
    chosen = choose(SMALL, ["m"], "", {SPACE: "2"})
    assert (chosen.environment, chosen.flags, chosen.line()) == ({}, (), "")


def test_without_a_compiler_nothing_is_compiled() -> None:
    """The engine would die of its first request with logprobs; so also where the user asks for a compiled model."""
    machine = replace(LARGE, compiles=False)
    chosen = choose(machine, ["m"], "", {})
    assert (chosen.flags, chosen.environment[EAGER]) == (("--enforce-eager",), "1")
    assert "--enforce-eager TORCHDYNAMO_DISABLE=1 (no C++ compiler: with one, tokens are faster)" in chosen.line()
    assert choose(machine, ["m", "-O3"], "", {}).flags == ()
    assert choose(machine, ["m", "-O3"], "", {}).environment[EAGER] == "1"


def test_weights_and_workers_share_the_memory(tmp_path: Path) -> None:
    """10 GiB of weights, and what loading them takes: of 100 GiB on a node 85 are left."""
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(10 * GIB)
    (tmp_path / "model.bin").write_bytes(b"the same weights in another format")
    whole = replace(LARGE, node_bytes=(100 * GIB,))
    assert choose(whole, [str(tmp_path)], "", {}).environment[SPACE] == "42"
    assert choose(whole, [str(tmp_path), "-tp", "2"], "", {}).environment[SPACE] == "20"
    assert choose(whole, [str(tmp_path)], "tensor-parallel-size: 2 # two\n", {}).environment[SPACE] == "20"
    assert choose(LARGE, [str(tmp_path), "--tensor-parallel-size=2"], "", {}).environment[SPACE] == "40"


def folder_of(path: Path, config: str, weights: int = GIB) -> str:
    """A model's folder with weights of this size."""
    path.mkdir(parents=True)
    (path / "config.json").write_text(config)
    with (path / "model.safetensors").open("wb") as file:
        file.truncate(weights)
    return str(path)


@pytest.mark.parametrize("config", ['{"dtype": "bfloat16"}', '{"torch_dtype": "float16"}'])
def test_16_bit_weights_become_32_bit_ones_where_those_are_faster(tmp_path: Path, config: str) -> None:
    """Their memory is counted: 17 GiB free, 3 for processes, 2.4 for a GiB of weights that doubles."""
    model, slow = folder_of(tmp_path / "m", config), replace(SMALL, slow_16bit=True)
    chosen = choose(slow, [model], "", {})
    assert chosen.flags == ("--dtype", "float32")
    assert "--dtype float32 (without AVX-512 16-bit floats are several times slower)" in chosen.line()
    assert chosen.environment[SPACE] == "5"
    assert choose(SMALL, [model], "", {}).flags == ()
    for words, file in ((["--dtype=auto"], ""), (["-q", "awq"], ""), ([], "dtype: half\n")):
        assert choose(slow, [model, *words], file, {}).flags == ()


def test_a_type_that_is_slower_for_one_sequence_is_proposed(tmp_path: Path) -> None:
    """A quick start, which has slower tokens anyway, takes it."""
    model = folder_of(tmp_path / "m", '{"dtype": "bfloat16"}')
    emulated = replace(SMALL, emulated_bf16=True)
    chosen, quick = choose(emulated, [model], "", {}), choose(emulated, [model], "", {}, quick=True)
    as_it_comes = choose(SMALL, [model], "", {})
    assert (chosen.flags, chosen.line()) == (as_it_comes.flags, as_it_comes.line())
    assert chosen.proposal is not None
    assert chosen.proposal.startswith("--dtype float32: ")
    assert (quick.flags, quick.proposal) == (("--dtype", "float32"), None)
    assert "--dtype float32 (without AVX512_BF16 " in quick.line()
    assert choose(emulated, [model, "--dtype=bfloat16"], "", {}).proposal is None


def test_other_weights_keep_their_type(tmp_path: Path) -> None:
    """Quantised or 32-bit ones, those that would not fit twice, and a model that is not here yet."""
    slow = replace(SMALL, slow_16bit=True)
    configs = ('{"dtype": "float32"}', '{"dtype": "bfloat16", "quantization_config": {}}', "[]", "{", "{}")
    models = [folder_of(tmp_path / f"{place}", config) for place, config in enumerate(configs)]
    large = folder_of(tmp_path / "large", '{"dtype": "bfloat16"}', 6 * GIB)
    for model in (*models, large, "hub/name", ""):
        assert choose(slow, [model] if model else [], "", {}).flags == ()


def test_a_limit_of_the_control_group_counts_for_all_workers() -> None:
    """12 GiB for two workers are 6 for each, 3 of them for its processes."""
    limited = replace(LARGE, group_bytes=12 * GIB)
    assert choose(limited, ["m"], "", {}).environment[SPACE] == "4"
    assert choose(limited, ["m", "-tp", "2"], "", {}).environment[SPACE] == "1"


def test_too_little_memory_is_warned_about_with_numbers() -> None:
    """The least is still tried: an estimate must not refuse what may work."""
    chosen = choose(replace(SMALL, group_bytes=int(3.5 * GIB)), ["m"], "", {})
    assert chosen.environment[SPACE] == "1"
    assert chosen.warning is not None
    assert "only 3.5 GiB of memory are free" in chosen.warning
    assert "about 3.0 GiB" in chosen.warning


@pytest.mark.parametrize(
    ("machine", "workers", "binding"),
    [
        pytest.param(SMALL, "1", None, id="one worker"),
        pytest.param(LARGE, "2", None, id="a worker on each node"),
        pytest.param(replace(SMALL, cores=(4, 5, 6, 7, 8), cpus=5.0), "2", "5,6|7,8", id="two workers on one node"),
        pytest.param(SMALL, "2", "nobind", id="too few cores"),
        pytest.param(SMALL, "two", None, id="a number that vLLM will refuse"),
    ],
)
def test_cores_are_chosen_only_where_vllm_cannot(machine: Machine, workers: str, binding: str | None) -> None:
    """vLLM itself leaves a core to the front end; several workers on one node need lists, which do so, too."""
    assert choose(machine, ["m", "-tp", workers], "", {}).environment.get(BIND) == binding


def test_a_quota_bounds_the_threads_and_binds_none() -> None:
    """Four processors of 32 cores: bound to fixed cores, servers beside each other would all share the same."""
    machine = replace(LARGE, cpus=4.0)
    assert choose(machine, ["m"], "", {}).environment.items() >= {BIND: "nobind", "OMP_NUM_THREADS": "3"}.items()
    assert "OMP_NUM_THREADS" not in choose(machine, ["m"], "", {"OMP_NUM_THREADS": "2"}).environment


@pytest.mark.parametrize(
    ("words", "config", "number"),
    [(["m"], "", 1), (["m", "-tp", "2", "-pp", "3", "-dp", "4"], "", 6), (["m"], "tensor-parallel-size: 2\n", 2)],
)
def test_the_workers_of_a_rank_are_counted(words: list[str], config: str, number: int) -> None:
    """As vLLM counts them for its own number of sequences: without the other ranks."""
    assert workers(words, config) == number
