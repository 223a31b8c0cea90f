"""Everything besides the documents that an answer's passages hang on, as one short text."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import asdict

from django.conf import settings

from apps.retrieval import selectors
from apps.retrieval.options import options_for

# Settings that choose other passages, or order them otherwise, without a new index or profile.
_SETTINGS = (
    "EMBEDDING_DTYPE",
    "EMBEDDING_LANGUAGES",
    "HNSW_ABOVE_CHUNKS",
    "QUESTION_MAX_CHARS",
    "RERANKER",
    "RERANKER_LANGUAGES",
    "RERANKER_MODEL",
    "TEI_RERANK_URL",
)


def answer_fingerprint(tenant_id: uuid.UUID) -> str:
    """SHA-256 (hex) of the index in force, the tenant's search profile and the settings.

    What was answered holds while this is the same, and the collections' versions are. Two queries.
    """
    index = selectors.active_index(tenant_id)
    parts = {
        "index": [str(index.id), index.generation, index.embedder_id] if index else None,
        "options": asdict(options_for(tenant_id)),
        "settings": [getattr(settings, name) for name in _SETTINGS],
    }
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
