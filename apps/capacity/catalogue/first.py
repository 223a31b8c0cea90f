"""The first catalogue: models, GPUs and prices, each with where it was read and when.

Prices are of others and grow old; operations correct them in the admin. What is uncertain says so
in its note. Prices are in US dollars.
"""

from __future__ import annotations

from datetime import date
from typing import Any

READ = date(2026, 12, 1)

_LITGPT = "PyPI litgpt 0.5.13, litgpt/config.py, which cites {} on huggingface.co; total computed"
_SLIDING = "The window counts only where the engine makes use of it."


def _dense(
    name: str,
    sizes: tuple[int, int, int, int, int],
    parameters: int,
    *,
    vocabulary: int,
    context: int,
    of: str = "",
    **more: Any,
) -> dict[str, Any]:
    """`sizes`: layers, hidden, heads, KV heads, size of a head."""
    layers, hidden, heads, kv_heads, head_dim = sizes
    return {
        "name": name,
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "parameters": parameters,
        "active_parameters": parameters,
        "vocabulary": vocabulary,
        "context_tokens": context,
        "source": _LITGPT.format(of or name),
        "read_on": READ,
        **more,
    }


MODELS: list[dict[str, Any]] = [
    _dense(
        "Llama-3.1-8B",
        (32, 4096, 32, 8, 128),
        8_030_261_248,
        vocabulary=128_256,
        context=131_072,
        of="meta-llama/Meta-Llama-3.1-8B",
    ),
    _dense(
        "Llama-3.1-70B",
        (80, 8192, 64, 8, 128),
        70_553_706_496,
        vocabulary=128_256,
        context=131_072,
        of="meta-llama/Meta-Llama-3.1-70B",
        note="Llama 3 and 3.3 of 70B have the same shape; Llama 3 a context of 8,192 tokens.",
    ),
    _dense(
        "Llama-3.2-1B",
        (16, 2048, 32, 8, 64),
        1_235_814_400,
        vocabulary=128_256,
        context=131_072,
        of="meta-llama/Llama-3.2-1B",
        tied_embeddings=True,
    ),
    _dense(
        "Llama-3.2-3B",
        (28, 3072, 24, 8, 128),
        3_212_749_824,
        vocabulary=128_256,
        context=131_072,
        of="meta-llama/Llama-3.2-3B",
        tied_embeddings=True,
    ),
    _dense(
        "Qwen2.5-0.5B",
        (24, 896, 14, 2, 64),
        494_032_768,
        vocabulary=151_936,
        context=32_768,
        of="Qwen/Qwen2.5-0.5B",
        tied_embeddings=True,
    ),
    _dense(
        "Qwen2.5-7B",
        (28, 3584, 28, 4, 128),
        7_615_616_512,
        vocabulary=152_064,
        context=131_072,
        of="Qwen/Qwen2.5-7B",
    ),
    _dense(
        "Qwen2.5-72B",
        (80, 8192, 64, 8, 128),
        72_706_203_648,
        vocabulary=152_064,
        context=131_072,
        of="Qwen/Qwen2.5-72B",
    ),
    _dense(
        "Mistral-7B-v0.1",
        (32, 4096, 32, 8, 128),
        7_241_732_096,
        vocabulary=32_000,
        context=32_768,
        of="mistralai/Mistral-7B-v0.1",
        window_tokens=4096,
        window_layers=32,
        note=_SLIDING,
    ),
    _dense(
        "Mistral-7B-v0.3",
        (32, 4096, 32, 8, 128),
        7_248_023_552,
        vocabulary=32_768,
        context=32_768,
        of="mistralai/Mistral-7B-v0.3",
    ),
    _dense(
        "Mixtral-8x7B",
        (32, 4096, 32, 8, 128),
        46_702_792_704,
        vocabulary=32_000,
        context=32_768,
        of="mistralai/Mixtral-8x7B-v0.1",
        active_parameters=12_879_925_248,
        experts=8,
        experts_active=2,
    ),
    _dense(
        "gemma-2-9b",
        (42, 3584, 16, 8, 256),
        9_241_705_984,
        vocabulary=256_000,
        context=8192,
        of="google/gemma-2-9b",
        tied_embeddings=True,
        window_tokens=4096,
        window_layers=21,
        note="Every other layer has a window. " + _SLIDING,
    ),
    _dense(
        "SmolLM2-135M",
        (30, 576, 9, 3, 64),
        134_515_008,
        vocabulary=49_152,
        context=8192,
        of="HuggingFaceTB/SmolLM2-135M",
        tied_embeddings=True,
    ),
    _dense(
        "SmolLM2-360M",
        (32, 960, 15, 5, 64),
        361_821_120,
        vocabulary=49_152,
        context=8192,
        of="HuggingFaceTB/SmolLM2-360M",
        tied_embeddings=True,
    ),
    _dense(
        "SmolLM2-1.7B",
        (24, 2048, 32, 32, 64),
        1_711_376_384,
        vocabulary=49_152,
        context=8192,
        of="HuggingFaceTB/SmolLM2-1.7B",
        tied_embeddings=True,
        note="As many KV heads as heads: a token takes more KV than one of Llama-3.1-8B.",
    ),
    _dense(
        "DeepSeek-V2",
        (60, 5120, 128, 128, 128),
        236_000_000_000,
        vocabulary=102_400,
        context=163_840,
        active_parameters=21_000_000_000,
        attention="latent",
        latent_dim=512,
        rope_dim=64,
        experts=160,
        experts_active=6,
        source="inclusionAI/Ling, mindie_config/…/deepseekv2/config_deepseekv2.py, and "
        "newfacade.github.io/notes-on-llm/models/deepseek-v2",
        note="Parameters as published, rounded: 236 and 21 billion. The context is that of "
        "DeepSeek-V3. Its KV holds only where the engine keeps the latent.",
    ),
    _dense(
        "DeepSeek-V3",
        (61, 7168, 128, 128, 128),
        671_000_000_000,
        vocabulary=129_280,
        context=163_840,
        active_parameters=37_000_000_000,
        attention="latent",
        latent_dim=512,
        rope_dim=64,
        experts=256,
        experts_active=8,
        source="PyPI transformers 5.24.0, models/deepseek_v3/configuration_deepseek_v3.py; the "
        "context from copies of the checkpoint's config.json",
        note="Parameters as published, rounded: 671 and 37 billion. Its KV holds only where the "
        "engine keeps the latent.",
    ),
]

_STAS = "github.com/stas00/ml-engineering, compute/accelerator/README.md"
_DENSE = "Dense throughput; tables often print the sparse one, twice that. "


def _gpu(
    name: str,
    memory_gb: int,
    bandwidth: float,
    bf16: float,
    *,
    fp8: float | None = None,
    int8: float | None = None,
    source: str = _STAS,
    note: str = "",
) -> dict[str, Any]:
    return {
        "name": name,
        "memory_bytes": memory_gb * 10**9,
        "bandwidth_gb_s": bandwidth,
        "bf16_tflops": bf16,
        "fp8_tflops": fp8,
        "int8_tops": int8,
        "source": source,
        "read_on": READ,
        "note": _DENSE + note,
    }


GPUS: list[dict[str, Any]] = [
    _gpu(
        "L4",
        24,
        300,
        121,
        fp8=242.5,
        source="text-generation-inference, launcher/src/main.rs (121); halved sparse figures "
        "(242 and 485)",
    ),
    _gpu(
        "A10G",
        24,
        600,
        70,
        source="Baseten, a10 and a10g compared; the throughput is not confirmed",
        note="Uncertain: about 70 of the variant that AWS has; text-generation-inference counts "
        "with 125, which is the A10's.",
    ),
    _gpu(
        "L40S",
        48,
        864,
        362,
        fp8=733,
        note="text-generation-inference counts with 363.",
    ),
    _gpu("A100 80 GB SXM", 80, 2039, 312, int8=624),
    _gpu(
        "H100 SXM",
        80,
        3350,
        989,
        fp8=1979,
        note="text-generation-inference counts with 900.",
    ),
    _gpu("H200", 141, 4800, 989, fp8=1979),
    _gpu(
        "MI300X",
        192,
        5300,
        1307.4,
        fp8=2614.9,
        source="github.com/alpharomercoma/MI300X-vs-H200, REPORT.md",
    ),
]

_MERCATUS = ("mercatus-ai.com", date(2026, 5, 1), "Second hand; of May 2026, the day is not told.")
_DEPLOYBASE = (
    "deploybase.ai",
    date(2026, 3, 1),
    "Second hand, from spot to on demand; of March 2026, the day is not told.",
)
_SILY = "raw.githubusercontent.com/tgarg01/silybench-data/main/derived/cost.json, of {}"
_RECEIPTS = (
    "raw.githubusercontent.com/datareceipts/data-receipts/main/109-gpu-pricing/hyperscalers.json",
    date(2026, 11, 9),
)


def _rental(
    gpu: str,
    provider: str,
    dollars: tuple[float, float],
    found: tuple[str, date],
    note: str = "",
) -> dict[str, Any]:
    return {
        "gpu": gpu,
        "provider": provider,
        "low_micros_per_hour": round(dollars[0] * 1_000_000),
        "high_micros_per_hour": round(dollars[1] * 1_000_000),
        "source": found[0],
        "as_of": found[1],
        "note": note,
    }


def _mercatus(gpu: str, kind: str, low: float, high: float) -> dict[str, Any]:
    return _rental(gpu, kind, (low, high), _MERCATUS[:2], _MERCATUS[2])


def _runpod_march(gpu: str, low: float, high: float) -> dict[str, Any]:
    return _rental(gpu, "RunPod", (low, high), _DEPLOYBASE[:2], _DEPLOYBASE[2])


def _september(
    gpu: str, provider: str, low: float, high: float, page: str, note: str = ""
) -> dict[str, Any]:
    found = (_SILY.format(page), date(2026, 9, 25))
    return _rental(gpu, provider, (low, high), found, f"Second hand. {note}".strip())


_CLOUDS = "Community to Secure Cloud, on demand."

RENTALS: list[dict[str, Any]] = [
    _runpod_march("L4", 0.44, 0.78),
    _runpod_march("L40S", 0.79, 1.40),
    _runpod_march("A100 80 GB SXM", 1.39, 2.45),
    _runpod_march("H100 SXM", 2.69, 4.76),
    _runpod_march("H200", 3.59, 6.35),
    _mercatus("A100 80 GB SXM", "Hyperscalers", 1.50, 3.00),
    _mercatus("A100 80 GB SXM", "Specialists", 1.10, 1.50),
    _mercatus("A100 80 GB SXM", "Long tail", 0.80, 1.10),
    _mercatus("H100 SXM", "Hyperscalers", 3.50, 5.00),
    _mercatus("H100 SXM", "Specialists", 2.50, 3.50),
    _mercatus("H100 SXM", "Long tail", 1.99, 2.50),
    _mercatus("H200", "Hyperscalers", 4.50, 7.00),
    _mercatus("H200", "Specialists", 3.50, 4.50),
    _mercatus("H200", "Long tail", 2.50, 3.50),
    _september("L40S", "RunPod", 0.79, 1.09, "runpod.io/pricing", _CLOUDS),
    _september("A100 80 GB SXM", "RunPod", 1.39, 1.59, "runpod.io/pricing", _CLOUDS),
    _september("H100 SXM", "RunPod", 2.69, 3.49, "runpod.io/pricing", _CLOUDS),
    _september("H200", "RunPod", 3.59, 4.59, "runpod.io/pricing", _CLOUDS),
    _september("L40S", "Nebius", 1.55, 1.55, "nebius.com/prices"),
    _september("H100 SXM", "Nebius", 3.85, 3.85, "nebius.com/prices"),
    _september("H200", "Nebius", 4.50, 4.50, "nebius.com/prices"),
    _september("A100 80 GB SXM", "Lambda", 2.79, 2.79, "lambda.ai/pricing", "Eight at once."),
    _september("H100 SXM", "Lambda", 3.99, 4.29, "lambda.ai/pricing", "Eight to one at once."),
    _rental(
        "A100 80 GB SXM", "AWS", (3.4309, 3.4309), _RECEIPTS, "p4de.24xlarge, us-east-1, an eighth."
    ),
    _rental("H100 SXM", "AWS", (6.88, 6.88), _RECEIPTS, "p5.48xlarge, us-east-1, an eighth."),
]

_HF_DOCS = "github.com/huggingface/hf-endpoints-documentation, docs/source/support/pricing.mdx"
_HF_NOTE = (
    "The provider's own list, an undated copy that speaks of July 2025. Billed by the minute, "
    "also while idle."
)
_HUNDRED = "huggingface.co/datasets/hundredthrun/gpu-cloud-prices, of deepinfra.com/pricing"
_SECOND_HAND = "Second hand: not seen at the provider's own page."


def _api(
    provider: str,
    model: str,
    dollars: tuple[float, float | None, float],
    found: tuple[str, date],
    *,
    like: str = "",
    note: str = _SECOND_HAND,
) -> dict[str, Any]:
    """`dollars` for a million tokens: of input, of cached input, of output."""
    read, cached, written = dollars
    return {
        "offer": "api",
        "provider": provider,
        "model": model,
        "comparable_to": like,
        "input_micros_per_mtok": round(read * 1_000_000),
        "cached_input_micros_per_mtok": None if cached is None else round(cached * 1_000_000),
        "output_micros_per_mtok": round(written * 1_000_000),
        "source": found[0],
        "as_of": found[1],
        "note": note,
    }


def _endpoint(instance: str, dollars: float) -> dict[str, Any]:
    return {
        "offer": "endpoint",
        "provider": "Hugging Face Inference Endpoints",
        "model": instance,
        "comparable_to": "",
        "hour_micros": round(dollars * 1_000_000),
        "source": _HF_DOCS,
        "as_of": date(2025, 7, 1),
        "note": _HF_NOTE,
    }


LIST_PRICES: list[dict[str, Any]] = [
    _api(
        "DeepInfra",
        "Llama 3.1 8B Instruct Turbo",
        (0.02, None, 0.04),
        (_HUNDRED, date(2026, 11, 5)),
        like="Llama-3.1-8B",
    ),
    _api(
        "DeepInfra",
        "Llama 3.1 70B Instruct Turbo",
        (0.40, None, 0.40),
        (_HUNDRED, date(2026, 11, 5)),
        like="Llama-3.1-70B",
    ),
    _api(
        "DeepInfra",
        "Llama 3.3 70B Instruct Turbo",
        (0.10, None, 0.32),
        (_HUNDRED, date(2026, 11, 5)),
        like="Llama-3.1-70B",
        note=_SECOND_HAND + " Runs at FP8, says the provider.",
    ),
    _api(
        "DeepInfra",
        "Mixtral 8x7B Instruct",
        (0.54, None, 0.54),
        (_HUNDRED, date(2026, 11, 5)),
        like="Mixtral-8x7B",
    ),
    _api(
        "Fireworks",
        "any model of 4 to 16 billion parameters",
        (0.20, None, 0.20),
        (_SILY.format("docs.fireworks.ai/serverless/pricing"), date(2026, 9, 25)),
        like="Llama-3.1-8B",
        note=_SECOND_HAND + " A price by size; not every model of that size is served.",
    ),
    _api(
        "Fireworks",
        "DeepSeek V3 family",
        (0.56, 0.28, 1.68),
        ("docs.fireworks.ai/serverless/pricing", date(2026, 9, 25)),
        like="DeepSeek-V3",
        note="The provider's own page, a copy without a date: the day is that of another copy.",
    ),
    _api(
        "Groq",
        "Llama 3.1 8B",
        (0.05, None, 0.08),
        ("huggingface.co/datasets/gemmozero/ai-pricing-matrix-2026", date(2026, 9, 26)),
        like="Llama-3.1-8B",
    ),
    _api(
        "Together",
        "Llama 3.1 8B",
        (0.18, None, 0.18),
        ("huggingface.co/datasets/gemmozero/ai-pricing-matrix-2026", date(2026, 9, 26)),
        like="Llama-3.1-8B",
    ),
    _api(
        "OpenAI",
        "GPT-4.1 mini",
        (0.40, None, 1.60),
        ("tokenmath.io/openai-api-pricing-explained", date(2026, 6, 21)),
        note=_SECOND_HAND + " A price for cached input exists, but was not on that page.",
    ),
    _api(
        "Anthropic",
        "Claude Haiku 5.5",
        (0.10, 0.01, 0.50),
        ("github.com/kurofune/claudit, release v1.9.2", date(2026, 10, 24)),
        note=_SECOND_HAND + " Prompts up to 100,000 tokens; longer ones cost five times as much. "
        "Writing to the cache costs more.",
    ),
    _api(
        "Anthropic",
        "Claude Sonnet 5.5",
        (2.00, 0.10, 10.00),
        ("docs.rs/synaps/0.10.2, synaps_cli/pricing", date(2026, 10, 10)),
        note=_SECOND_HAND + " Writing to the cache costs more.",
    ),
    _endpoint("1 × NVIDIA L4 (AWS)", 0.80),
    _endpoint("1 × NVIDIA A10G (AWS)", 1.00),
    _endpoint("1 × NVIDIA L40S (AWS)", 1.80),
    _endpoint("1 × NVIDIA A100 80 GB (AWS)", 2.50),
    _endpoint("1 × NVIDIA H200 (AWS)", 5.00),
    _endpoint("1 × NVIDIA H100 80 GB (Google Cloud)", 10.00),
    _endpoint("8 × NVIDIA H100 80 GB (Google Cloud)", 80.00),
]
