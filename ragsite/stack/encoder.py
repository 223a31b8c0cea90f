"""The one-machine encoder: the embedding model behind TEI's HTTP protocol, on loopback.

    python -m ragsite.stack.encoder --port 8081

Speaks TEI 1.9 (`/health /info /embed /embed_all /rerank /tokenize`), so that TEI itself can take
its place by setting TEI_URL. Beyond TEI: `/rerank` does late interaction on the embedding model,
takes `word_weights: [[start, end, weight], …]` (characters of the query), and `/info` says
`late_interaction: true`. Site and worker hold no torch and stay small.

`/metrics` says how long it worked.

Environment: EMBEDDING_MODEL, EMBEDDING_DTYPE, TEI_API_KEY, INFERENCE_THREADS, TOKEN_CACHE_MIB.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading

from apps.inference.local_encoder import LocalEncoder
from ragsite.stack.encoder_http import EncoderServer
from ragsite.stack.encoder_service import EncoderService

DEFAULT_TOKEN_CACHE_MIB = 64  # some 600 passages of 140 tokens


def main() -> None:
    """Load the model, then serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    encoder = LocalEncoder(
        os.environ.get("EMBEDDING_MODEL") or "all-MiniLM-L6-v2",
        threads=int(os.environ.get("INFERENCE_THREADS") or 0),
        dtype=os.environ.get("EMBEDDING_DTYPE") or "auto",
    )
    # The first run of the model allocates and compiles; no question should wait for that.
    encoder.embed(encoder.tokenize(["warm-up"]))
    service = EncoderService(encoder, token_cache_bytes=_token_cache_mib() << 20)
    server = EncoderServer(arguments.port, service, key=os.environ.get("TEI_API_KEY", ""))
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever(poll_interval=0.2)


def _token_cache_mib() -> int:
    return int(os.environ.get("TOKEN_CACHE_MIB") or DEFAULT_TOKEN_CACHE_MIB)


if __name__ == "__main__":
    main()
