"""A plan's inputs out of an address; what is missing there has a default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.conf import settings

from apps.capacity.retrieval_planning.planning import Wish
from apps.capacity.retrieval_planning.sizes import MOST_DIMENSIONS, MOST_PASSAGES
from apps.capacity.retrieval_planning.stored import Stored
from apps.retrieval.options import EF_SEARCH, M
from apps.retrieval.plans import EF_SEARCH_MAX

GB = 10**9
# Seen with ragsite's documentation as the corpus, 327 passages: 2,377 and 3,332. A site's own
# figures take their place.
TEXT_BYTES, WORD_BYTES = 2_400.0, 3_300.0
GROUPS: tuple[tuple[str, str], ...] = (
    ("What is searched", "passages largest text_bytes word_bytes"),
    ("Vectors", "dimensions storage m ef_search"),
    ("What you promise", "per_s promise_ms recall"),
    ("The database's machine", "memory_gb cores replicas"),
    ("Assumptions", "memory_share busy_most"),
)


class RetrievalForm(forms.Form):
    """Shares are typed in percent."""

    def __init__(self, asked: Mapping[str, str], *, stored: Stored | None) -> None:
        self.stored = stored
        super().__init__(self.defaults(stored) | dict(asked))
        for name, field in _fields(stored).items():
            self.fields[name] = field

    @staticmethod
    def defaults(stored: Stored | None) -> dict[str, str]:
        passages = max(100_000, stored.passages if stored else 0)
        return {
            "passages": str(passages),
            "largest": "25",
            "text_bytes": f"{stored.text_bytes if stored else TEXT_BYTES:.0f}",
            "word_bytes": f"{stored.word_bytes if stored else WORD_BYTES:.0f}",
            "dimensions": "384",
            "storage": "halfvec",
            "m": str(M),
            "ef_search": str(EF_SEARCH),
            "per_s": "10",
            "promise_ms": "100",
            "recall": "95",
            "memory_gb": "16",
            "cores": "4",
            "replicas": "0",
            "memory_share": "75",
            "busy_most": "70",
        }

    @property
    def groups(self) -> list[tuple[str, list[forms.BoundField]]]:
        return [(title, [self[name] for name in names.split()]) for title, names in GROUPS]

    def wish(self) -> Wish:
        """Of a valid form."""
        typed: dict[str, Any] = self.cleaned_data
        return Wish(
            passages=typed["passages"],
            largest=max(1, round(typed["passages"] * typed["largest"] / 100)),
            dimensions=typed["dimensions"],
            storage=typed["storage"],
            m=typed["m"],
            ef_search=typed["ef_search"],
            per_s=typed["per_s"],
            promise_ms=typed["promise_ms"],
            recall=typed["recall"] / 100,
            replicas=typed["replicas"],
            memory_bytes=int(typed["memory_gb"] * GB),
            cores=typed["cores"],
            memory_share=typed["memory_share"] / 100,
            busy_most=typed["busy_most"] / 100,
            text_bytes=typed["text_bytes"],
            word_bytes=typed["word_bytes"],
            bytes_origin=self._origin(),
            exact_up_to=settings.HNSW_ABOVE_CHUNKS,
        )

    def _origin(self) -> str:
        own = self.defaults(self.stored)
        if any(self[name].value() != own[name] for name in ("text_bytes", "word_bytes")):
            return "typed, not measured"
        if self.stored is None:
            return "as seen with ragsite's documentation, 327 passages; not of this site"
        return f"size of this site's tables with their indexes / {self.stored.passages:,} passages"


def _fields(stored: Stored | None) -> dict[str, forms.Field]:
    measured = (
        f"Bytes, as measured over this site's {stored.passages:,} passages."
        if stored
        else "Bytes. Measured here once there are 1,000 passages."
    )
    return {
        "passages": _whole("Passages in all", 1, MOST_PASSAGES, "About nine to a page of text."),
        "largest": _number("In the largest organisation, %", 0.0001, 100, "Of the passages."),
        "text_bytes": _number("Text of a passage", 1, 10**7, measured),
        "word_bytes": _number("Word index of a passage", 1, 10**7, measured),
        "dimensions": _whole("Dimensions", 1, MOST_DIMENSIONS, "Of the embedding model."),
        "storage": forms.ChoiceField(
            label="HNSW over",
            choices=[("halfvec", "Halves (16 bits a number)"), ("bit", "Signs (1 bit a number)")],
            error_messages={"invalid_choice": "Choose one of the list."},
        ),
        "m": _whole("m", 2, 100, "Neighbours of a vector in the HNSW graph."),
        "ef_search": _whole("ef_search", 1, EF_SEARCH_MAX, "Candidates an HNSW search keeps."),
        "per_s": _number("Searches a second", 0.001, 10**7, "At the busiest time."),
        "promise_ms": _number("95 % of searches within, ms", 0.01, 10**6, "The search alone."),
        "recall": _number("Recall at 20, %", 1, 100, "Of what exact search would find."),
        "memory_gb": _number("Memory, GB", 0.1, 10**6, "Of one database machine."),
        "cores": _whole("Cores", 1, 4096, "Of one database machine."),
        "replicas": _whole("Read replicas", 0, 1000, "Copies beside the first."),
        "memory_share": _number("Memory for caches, %", 1, 100, "The rest is for work and system."),
        "busy_most": _number("Busy at most, %", 1, 99, "Beyond it, waiting grows without bound."),
    }  # fmt: skip


def _number(label: str, least: float, most: float, help_text: str) -> forms.FloatField:
    words = f"Give a number from {least:,g} to {most:,g}."
    return forms.FloatField(
        label=label,
        min_value=least,
        max_value=most,
        help_text=help_text,
        widget=forms.NumberInput(attrs={"step": "any", "inputmode": "decimal"}),
        error_messages=dict.fromkeys(("required", "invalid", "min_value", "max_value"), words),
    )


def _whole(label: str, least: int, most: int, help_text: str) -> forms.IntegerField:
    words = f"Give a whole number from {least:,} to {most:,}."
    return forms.IntegerField(
        label=label,
        min_value=least,
        max_value=most,
        help_text=help_text,
        error_messages=dict.fromkeys(("required", "invalid", "min_value", "max_value"), words),
    )
