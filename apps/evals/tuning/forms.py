"""What a person asks a curve for."""

from __future__ import annotations

from typing import Any

from django import forms

from apps.evals.tuning.errors import GridInvalid
from apps.evals.tuning.grid import DEFAULTS, KNOBS, parse_grid
from apps.retrieval.options import SearchOptions

_HELP = {
    "ef_search": "How many neighbours an HNSW index looks at. Higher: more recall, more time.",
    "storage": "halfvec, or bit: an index of signs, smaller, whose hits are scored again.",
    "m": "Links of each passage in the HNSW index. Each other value is another index to build.",
    "ef_construction": "Care taken in building it; at least twice m.",
    "leg_candidates": "Taken from words and from meaning, each. Needs labelled questions.",
    "rerank_candidates": "Of these, how many are ranked again. Needs labelled questions.",
}
_LABELS = {"leg_candidates": "Candidates of each leg", "rerank_candidates": "Ranked again"}
VALUES_MAX_CHARS = 200


class TuneForm(forms.Form):
    """Values separated by commas or spaces; an empty field stays as it is in force."""

    goal = forms.FloatField(label="Recall goal", min_value=0.5, max_value=1.0, initial=0.98)
    k = forms.IntegerField(
        label="k, the nearest that recall looks at", min_value=1, max_value=1000, initial=20
    )

    def __init__(self, *args: Any, in_force: SearchOptions, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["goal"].widget.attrs["step"] = "any"
        for knob in KNOBS:
            usual = DEFAULTS.get(knob, (getattr(in_force, knob),))
            self.fields[knob] = forms.CharField(
                label=_LABELS.get(knob, knob),
                help_text=_HELP[knob],
                required=False,
                max_length=VALUES_MAX_CHARS,
                initial=", ".join(map(str, usual)),
            )

    @property
    def knob_fields(self) -> list[forms.BoundField]:
        return [self[knob] for knob in KNOBS]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        given = {knob: str(cleaned.get(knob) or "").replace(",", " ").split() for knob in KNOBS}
        words = " ".join(f"{knob}={','.join(values)}" for knob, values in given.items() if values)
        try:
            cleaned["grid"] = parse_grid(words)
        except GridInvalid as exc:
            raise forms.ValidationError(str(exc)) from exc
        return cleaned
