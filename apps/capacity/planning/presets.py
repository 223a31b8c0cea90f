"""Where a plan may begin: what the form holds before anybody has typed, and three examples.

Figures of the demand are examples, not measurements; the page says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

DEFAULTS: dict[str, str] = {
    "model": "Llama-3.1-8B",
    "gpu": "H100 SXM",
    "gpus": "1",
    "precision": "bf16",
    "kv": "kv16",
    "context": "8192",
    "source": "typed",
    "tenant": "",
    "days": "30",
    "prompt_mean": "2000",
    "prompt_p95": "4000",
    "output_mean": "250",
    "output_p95": "600",
    "peak_per_s": "2",
    "a_day": "50000",
    "reuse": "0",
    "growth": "1",
    "ttft_ms": "1000",
    "tpot_ms": "50",
    "e2e_ms": "",
    "hour": "",
    "staff": "",
    "draft": "",
    "draft_tokens": "4",
    "acceptance": "",
    "memory_share": "90",
    "reserve_gb": "4",
    "prefill_efficiency": "50",
    "decode_efficiency": "60",
    "utilisation": "70",
    "overhead": "30",
    "most_batch": "256",
    "link_gb_s": "50",
    "own_memory_gb": "",
    "own_bandwidth_gb_s": "",
    "own_tflops": "",
    "own_fp8_tflops": "",
}


@dataclass(frozen=True, slots=True)
class Preset:
    """An example: a link to the page, filled in."""

    title: str
    words: str
    changes: dict[str, str]

    @property
    def query(self) -> str:
        return urlencode({**DEFAULTS, **self.changes})


# The engine that a new install brings, as it was measured with SmolLM2-135M on two cores: 78
# tokens/s written and 240 tokens/s read (docs/capacity.md). With weights of 123 MB as they are
# counted here that is 9.6 GB/s, and with 2 × 134.5 million operations a token 0.065 × 10^12.
_ONE_MACHINE = {
    "model": "SmolLM2-135M",
    "gpu": "own",
    "own_memory_gb": "4",
    "own_bandwidth_gb_s": "9.6",
    "own_tflops": "0.065",
    "precision": "q4_1",
    "context": "4096",
    "prompt_mean": "1200",
    "prompt_p95": "2000",
    "output_mean": "80",
    "output_p95": "200",
    "peak_per_s": "0.05",
    "a_day": "500",
    "ttft_ms": "15000",
    "tpot_ms": "200",
    "reserve_gb": "0.5",
    # The figures are measured ones: nothing is to be taken off them.
    "prefill_efficiency": "100",
    "decode_efficiency": "100",
    "most_batch": "4",
}
PRESETS = (
    Preset(
        "8B on one GPU",
        "Llama 3.1 8B in 16 bits on an H100, for 50,000 questions a day.",
        {},
    ),
    Preset(
        "70B on eight GPUs",
        "Llama 3.1 70B in 16 bits on eight H100, for 100,000 questions a day.",
        {
            "model": "Llama-3.1-70B",
            "gpus": "8",
            "peak_per_s": "4",
            "a_day": "100000",
            "draft": "Llama-3.1-8B",
        },
    ),
    Preset(
        "The one-machine engine",
        "SmolLM2 on two cores, as a new install runs it, with speeds that were measured.",
        _ONE_MACHINE,
    ),
)
