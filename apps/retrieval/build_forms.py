"""What people fill in to change the embedding model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms

from apps.retrieval.builds.starting import LONGEST_TOKENS, SHORTEST_TOKENS
from apps.retrieval.models import EmbeddingModel

SAME, OWN = "same", "own"


class StartForm(forms.Form):
    """Which model, and how passages are cut: as they are, where it is left empty."""

    model = forms.ChoiceField()
    chunk_tokens = forms.IntegerField(
        required=False, min_value=SHORTEST_TOKENS, max_value=LONGEST_TOKENS
    )
    chunk_overlap_tokens = forms.IntegerField(required=False, min_value=0)
    passages_per_s = forms.FloatField(required=False, min_value=0.1, max_value=100_000)

    def __init__(self, *args: Any, models: Sequence[EmbeddingModel], **kwargs: Any) -> None:
        super().__init__(*args, **{"auto_id": "build-%s", **kwargs})
        self._models = {str(each.id): each for each in models}
        self.fields["model"].choices = [  # type: ignore[attr-defined]
            (SAME, "The same model as now"),
            (OWN, "The site's own model"),
            *((key, each.label) for key, each in self._models.items()),
        ]

    def clean(self) -> dict[str, Any]:
        """Passages that share tokens, and are not cut, are a slip."""
        data = super().clean() or self.cleaned_data
        if data.get("chunk_overlap_tokens") is not None and not data.get("chunk_tokens"):
            self.add_error("chunk_tokens", "Say how long the passages are to be, too.")
        return data

    def choice(self, in_force: EmbeddingModel | None) -> dict[str, Any]:
        """What `start_build` takes; `in_force`: the model of today's index."""
        data = self.cleaned_data
        chosen = {SAME: in_force, OWN: None}.get(data["model"], self._models.get(data["model"]))
        return {**data, "model": chosen}


class ThrottleForm(forms.Form):
    """How fast an index is built at most; as fast as it goes, where it is left empty."""

    passages_per_s = forms.FloatField(required=False, min_value=0.1, max_value=100_000)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"auto_id": "throttle-%s", **kwargs})
