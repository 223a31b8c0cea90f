"""What of a chunk is embedded, weighed and reranked."""

from __future__ import annotations

from apps.documents.models import Chunk
from apps.retrieval.normalization import normalize


def indexed_text(chunk: Chunk) -> str:
    """The chunk's text under its heading path: a passage seldom repeats what it is about.

    In the spelling that is searched; what is shown of a chunk is its own text.
    Part of what an embedding index is; changing it needs a new chunker version.
    """
    return normalize(f"{chunk.heading_path}\n{chunk.text}" if chunk.heading_path else chunk.text)
