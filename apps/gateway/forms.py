"""Forms of the gateway's pages."""

from __future__ import annotations

from django import forms

from apps.gateway.caching.policy import THRESHOLD_MAX, THRESHOLD_MIN


class CacheForm(forms.Form):
    enabled = forms.BooleanField(
        label="Give an answer again when the same is asked",
        required=False,
        help_text="Word for word, by somebody to whom the same collections are open, of the same "
        "model, and while no document of theirs has changed. Switched off, what is kept is "
        "forgotten.",
    )
    semantic = forms.BooleanField(
        label="Also when a question means the same in other words",
        required=False,
        help_text="Numbers, names, negations and words in quotation marks must be the same. Every "
        "answer given this way is listed below, and can be called wrong.",
    )
    semantic_threshold = forms.FloatField(
        label="How alike the two must be",
        min_value=THRESHOLD_MIN,
        max_value=THRESHOLD_MAX,
        widget=forms.NumberInput(attrs={"step": "0.005"}),
        help_text="From 0.5 to 1. At 0.97 two questions are the same but for a few small words. "
        "At 0.92 most are the same in other words. Below 0.85 some ask for something else, and "
        "are given an answer that is not theirs.",
    )
