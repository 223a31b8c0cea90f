"""`config.json` of known checkpoints: the fields that count."""

from __future__ import annotations

from typing import Any


def llama(
    hidden: int, layers: int, heads: int, kv_heads: int, width: int, **more: Any
) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": width,
        "vocab_size": 128_256,
        "max_position_embeddings": 131_072,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        **more,
    }


SMOL = {"vocab_size": 49_152, "tie_word_embeddings": True, "max_position_embeddings": 8192}
QWEN = {
    "model_type": "qwen2",
    "use_sliding_window": False,
    "sliding_window": 131_072,
    "max_window_layers": 28,
}
MISTRAL = {"model_type": "mistral", "vocab_size": 32_000, "max_position_embeddings": 32_768}

LLAMA_8B = llama(4096, 32, 32, 8, 14_336)
DENSE: dict[str, tuple[dict[str, Any], int]] = {
    "Llama-3.1-8B": (LLAMA_8B, 8_030_261_248),
    "Llama-3.1-70B": (llama(8192, 80, 64, 8, 28_672), 70_553_706_496),
    "Llama-3.2-1B": (llama(2048, 16, 32, 8, 8192, tie_word_embeddings=True), 1_235_814_400),
    "Llama-3.2-3B": (
        llama(3072, 28, 24, 8, 8192, tie_word_embeddings=True, head_dim=128),
        3_212_749_824,
    ),
    "Qwen2.5-0.5B": (
        llama(896, 24, 14, 2, 4864, **QWEN)
        | {"vocab_size": 151_936, "tie_word_embeddings": True, "max_position_embeddings": 32_768},
        494_032_768,
    ),
    "Qwen2.5-7B": (llama(3584, 28, 28, 4, 18_944, **QWEN) | {"vocab_size": 152_064}, 7_615_616_512),
    "Qwen2.5-72B": (
        llama(8192, 80, 64, 8, 29_568, **QWEN) | {"vocab_size": 152_064},
        72_706_203_648,
    ),
    "Mistral-7B-v0.1": (
        llama(4096, 32, 32, 8, 14_336, **MISTRAL, sliding_window=4096),
        7_241_732_096,
    ),
    "Mistral-7B-v0.3": (
        llama(4096, 32, 32, 8, 14_336, **MISTRAL, sliding_window=None) | {"vocab_size": 32_768},
        7_248_023_552,
    ),
    "Mixtral-8x7B": (
        llama(4096, 32, 32, 8, 14_336, **MISTRAL, sliding_window=None)
        | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2},
        46_702_792_704,
    ),
    # As published: tied embeddings are gemma's definition and not in its file.
    "gemma-2-9b": (
        {
            "model_type": "gemma2",
            "hidden_size": 3584,
            "num_hidden_layers": 42,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 256,
            "intermediate_size": 14_336,
            "vocab_size": 256_000,
            "max_position_embeddings": 8192,
            "sliding_window": 4096,
        },
        9_241_705_984,
    ),
    "SmolLM2-135M": (llama(576, 30, 9, 3, 1536, **SMOL), 134_515_008),
    "SmolLM2-360M": (llama(960, 32, 15, 5, 2560, **SMOL), 361_821_120),
    "SmolLM2-1.7B": (llama(2048, 24, 32, 32, 8192, **SMOL), 1_711_376_384),
}

PHI_2 = {
    "model_type": "phi",
    "hidden_size": 2560,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": None,
    "intermediate_size": 10_240,
    "vocab_size": 51_200,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}

DEEPSEEK_V3 = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18_432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "num_nextn_predict_layers": 1,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "vocab_size": 129_280,
    "max_position_embeddings": 163_840,
    "tie_word_embeddings": False,
}
DEEPSEEK_V2 = DEEPSEEK_V3 | {
    "model_type": "deepseek_v2",
    "hidden_size": 5120,
    "intermediate_size": 12_288,
    "moe_intermediate_size": 1536,
    "num_hidden_layers": 60,
    "n_routed_experts": 160,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "first_k_dense_replace": 1,
    "vocab_size": 102_400,
}
QWEN3_MOE = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "vocab_size": 151_936,
    "max_position_embeddings": 40_960,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "use_sliding_window": False,
    "sliding_window": None,
}
GEMMA_3 = {
    "model_type": "gemma3",
    "vision_config": {"hidden_size": 1152},
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 1152,
        "num_hidden_layers": 26,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "intermediate_size": 6912,
        "vocab_size": 262_144,
        "max_position_embeddings": 32_768,
        "sliding_window": 512,
        "sliding_window_pattern": 6,
    },
}
