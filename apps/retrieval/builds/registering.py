"""Adding a model that indexes can be built with. Operations' alone: the site calls its address."""

from __future__ import annotations

from collections.abc import Sequence

from apps.retrieval import embedders
from apps.retrieval.models import EmbeddingModel
from apps.telemetry.services import record_audit


def add_model(
    *,
    label: str,
    location: str,
    kind: str | None = None,
    query_prompt: str = "",
    document_prompt: str = "",
    languages: Sequence[str] = ("en",),
) -> tuple[EmbeddingModel, int]:
    """Add a model once it has answered; it and its dimensions.

    `kind` follows from the location where it is not given. Raises an InferenceError where the
    model cannot be used, and ValidationError for a label that is taken.
    """
    is_url = location.startswith(("http://", "https://"))
    model = EmbeddingModel(
        label=label,
        kind=kind or ("tei" if is_url else "sentence-transformers"),
        location=location,
        query_prompt=query_prompt,
        document_prompt=document_prompt,
        languages=list(languages),
    )
    model.full_clean()
    dimensions = embedders.embedder_by(model).dimensions
    model.save()
    record_audit(action="embedding_model.added", tenant_id=None, actor_id=None, subject_id=model.id)
    return model, dimensions
