"""Tables of retrieval: embedding indexes, the rows that are searched, and how they are searched."""

from apps.retrieval.models.indexes import (
    AnnIndex,
    EmbeddingIndex,
    EmbeddingModel,
    IndexBuild,
    IndexedDocument,
    SwitchOverride,
)
from apps.retrieval.models.rows import (
    ChunkTerms,
    ChunkVector,
    CollectionStatistics,
    StagedChunk,
    TermFrequency,
)
from apps.retrieval.models.searching import RecallSample, SearchProfile

__all__ = [
    "AnnIndex",
    "ChunkTerms",
    "ChunkVector",
    "CollectionStatistics",
    "EmbeddingIndex",
    "EmbeddingModel",
    "IndexBuild",
    "IndexedDocument",
    "RecallSample",
    "SearchProfile",
    "StagedChunk",
    "SwitchOverride",
    "TermFrequency",
]
