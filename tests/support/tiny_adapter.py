"""A LoRA adapter for the tiny model, with seeded random weights that change its answers."""

from __future__ import annotations

import json
from pathlib import Path

from running_server import TINY_MODEL

_RANK = 8


def write_adapter(folder: Path, seed: int) -> Path:
    """Write the adapter into a new folder, which is returned."""
    import torch
    from safetensors.torch import save_file

    model = json.loads((TINY_MODEL / "config.json").read_text(encoding="utf-8"))
    width, head = model["hidden_size"], model["head_dim"]
    outputs = {"q_proj": head * model["num_attention_heads"], "v_proj": head * model["num_key_value_heads"]}
    torch.manual_seed(seed)
    weights = {}
    for layer in range(model["num_hidden_layers"]):
        for name, outs in outputs.items():
            part = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            weights[f"{part}.lora_A.weight"] = torch.randn(_RANK, width) / 2
            weights[f"{part}.lora_B.weight"] = torch.randn(outs, _RANK) / 2
    folder.mkdir()
    save_file(weights, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": _RANK, "lora_alpha": 2 * _RANK, "target_modules": list(outputs)}
    (folder / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder
