"""Parameters counted from sizes, against the modules that `transformers` builds of the same file.

Small ones, on torch's meta device, where weights take no memory.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from apps.capacity.catalogue.checkpoint import read_checkpoint
from tests.capacity.configs import DEEPSEEK_V2, DEEPSEEK_V3

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 320,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
    "pad_token_id": 0,
    "eos_token_id": 1,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
GEMMA = SMALL | {"tie_word_embeddings": True, "head_dim": 32, "sliding_window": 32}
DEEPSEEK = SMALL | {
    "num_key_value_heads": 4,
    "moe_intermediate_size": 24,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "q_lora_rank": 24,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "n_group": 1,
    "topk_group": 1,
    "num_nextn_predict_layers": 0,
}
KINDS: dict[str, dict[str, Any]] = {
    "llama": SMALL | {"attention_bias": True, "mlp_bias": True},
    "mistral": SMALL | {"sliding_window": 32, "head_dim": 16},
    "mixtral": SMALL | {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
    "qwen2": SMALL | {"use_sliding_window": False},
    "qwen3": SMALL | {"head_dim": 32, "use_sliding_window": False, "attention_bias": True},
    "qwen2_moe": SMALL
    | EXPERTS
    | {
        "shared_expert_intermediate_size": 40,
        "decoder_sparse_step": 2,
        "mlp_only_layers": [1],
        "use_sliding_window": False,
    },
    "qwen3_moe": SMALL
    | EXPERTS
    | {"head_dim": 32, "decoder_sparse_step": 1, "mlp_only_layers": [0]},
    "gemma": GEMMA,
    "gemma2": GEMMA,
    "gemma3_text": GEMMA | {"sliding_window_pattern": 6},
    "phi": SMALL,
    "phi3": SMALL | {"sliding_window": None},
    "deepseek_v2": DEEPSEEK_V2 | DEEPSEEK,
    "deepseek_v3": DEEPSEEK_V3 | DEEPSEEK,
}


def built(kind: str, sizes: dict[str, Any]) -> tuple[int, int]:
    """Parameters, tied ones once, and layers with a window."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(kind, **sizes)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    # V3's bias of each expert is learnt, and kept as a buffer.
    biases = [b for name, b in model.named_buffers() if name.endswith("e_score_correction_bias")]
    counted = sum(p.numel() for p in (*model.parameters(), *biases))
    return counted, (getattr(config, "layer_types", None) or []).count("sliding_attention")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_counted_parameters_are_those_that_are_built(kind: str) -> None:
    sizes = {name: value for name, value in KINDS[kind].items() if name != "model_type"}
    shape = read_checkpoint(json.dumps(sizes | {"model_type": kind}), name=kind).shape
    parameters, windows = built(kind, sizes)
    assert shape.parameters == parameters
    if kind != "mistral":  # its layers all have the window, and its file lists none
        assert shape.window_layers == windows


@pytest.mark.slow
def test_uncompressed_queries_are_counted_too() -> None:
    sizes = DEEPSEEK_V2 | DEEPSEEK | {"q_lora_rank": None}
    shape = read_checkpoint(json.dumps(sizes), name="lite").shape
    del sizes["model_type"]
    assert shape.parameters == built("deepseek_v2", sizes)[0]
