"""How figures of quality are said on pages."""

from __future__ import annotations

import math
from typing import Any

from django import template

register = template.Library()

_METRIC_NAMES = {"recall": "Recall", "ndcg": "nDCG", "mrr": "MRR", "success": "Success"}
_STAGE_NAMES = {
    "bm25": "Words (BM25)",
    "vectors": "Meaning (vectors)",
    "fused": "Both, fused",
    "reranked": "Reranked",
    "final": "As returned",
}
_SETTING_NAMES = {
    "collection.chunks": "Passages",
    "collection.documents": "Documents",
    "default": "As readers' questions are searched",
    "index.dimensions": "Dimensions of the vectors",
    "index.generation": "Generation of passages",
    "index.id": "Embedding index",
    "index.model": "Embedding model",
    "limit": "Passages asked for",
    "options.diversify": "Near-duplicates dropped",
    "options.exact": "Exact search, whatever the plan",
    "options.leg_candidates": "Candidates of words and of vectors",
    "options.not_found_below": "Refused below a relevance of",
    "options.rerank": "Reranking",
    "options.rerank_candidates": "Candidates reranked",
    "options.storage": "Vectors kept as",
    "options.vectors": "Meaning (vectors)",
    "options.words": "Words (BM25)",
    "reranker": "Reranker",
    "stages": "Stages measured",
    "versions.chunker": "Version of the chunker",
    "versions.search_code": "Version of the search code",
}
_SECOND_MS = 1000


@register.filter
def metric_name(metric: str) -> str:
    """ "nDCG@10" for "ndcg@10"."""
    name, at, depth = metric.partition("@")
    return f"{_METRIC_NAMES.get(name, name)}{at}{depth}"


@register.filter
def stage_name(stage: str) -> str:
    """What a stage of search is called on pages."""
    return _STAGE_NAMES.get(stage, stage)


@register.filter
def measured(value: Any) -> str:
    """ "0.842", or a dash where there is no figure."""
    return f"{value:.3f}" if _is_number(value) else "–"


@register.filter
def signed(value: Any) -> str:
    """A difference: "+0.012", "−0.030", "0.000", or a dash."""
    if not _is_number(value):
        return "–"
    if round(value, 3) == 0:
        return "0.000"
    return f"{'+' if value > 0 else '−'}{abs(value):.3f}"


@register.filter
def percent(share: Any) -> str:
    """ "97.5 %", or a dash."""
    return f"{100 * share:.1f} %" if _is_number(share) else "–"


@register.filter
def took(milliseconds: Any) -> str:
    """ "12 ms", "1.4 s", or a dash."""
    if not _is_number(milliseconds):
        return "–"
    if milliseconds < _SECOND_MS:
        return f"{milliseconds:.1f} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"
    return f"{milliseconds / _SECOND_MS:.1f} s"


@register.filter
def setting_name(name: str) -> str:
    """What a part of a run's configuration is called; its own name where there are no words."""
    return _SETTING_NAMES.get(name, name.removeprefix("options."))


@register.filter
def setting(value: Any) -> str:
    """A value of a configuration, in words."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "–"
    return str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
