"""Forms about limits, in the units that people think in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django import forms
from django.conf import settings
from django.core.validators import validate_email

from apps.gateway.alerting.addresses import URL_MAX_CHARS
from apps.gateway.alerting.targets import EMAILS_MAX
from apps.ops.limits import MEASURES
from apps.tenants.amounts import parse_amount
from apps.tenants.errors import LimitRefused
from apps.tenants.models import Measure, Subject


class GivenLimitForm(forms.Form):
    """A limit that operations give a tenant."""

    measure = forms.ChoiceField(label="What", choices=[(m.value, m.label) for m in MEASURES])
    amount = forms.CharField(
        label="At most",
        max_length=40,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    soft_percent = forms.IntegerField(
        label="Warn at",
        min_value=1,
        max_value=100,
        initial=80,
        help_text="Percent of it that is used.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["amount"].help_text = (
            f"Money in {settings.CURRENCY} (250 or 12.50), storage with its unit (500 MB, 10 GB), "
            "anything else as a whole number (1,000,000). 0 allows nothing."
        )

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if "measure" in cleaned and "amount" in cleaned:
            try:
                measure = Measure(cleaned["measure"])
                cleaned["amount"] = parse_amount(measure, cleaned["amount"])
            except LimitRefused as exc:
                self.add_error("amount", str(exc))
        return cleaned


class LimitForm(GivenLimitForm):
    """A limit that a tenant's manager sets: of the tenant, of each or one member or key."""

    field_order = ("whom", "measure", "amount", "soft_percent")
    whom = forms.ChoiceField(label="Of whom")

    def __init__(self, names: Mapping[tuple[str, str], str], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices: list[Any] = [
            ("tenant", "The organisation"),
            ("member", "Each member"),
            ("key", "Each API key"),
        ]
        for subject, group in ((Subject.MEMBER, "One member"), (Subject.KEY, "One API key")):
            some = [(f"{s}:{i}", name) for (s, i), name in names.items() if s == subject]
            if some:
                choices.append((group, some))
        field = self.fields["whom"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - for the type checker
        field.choices = choices

    @property
    def subject(self) -> tuple[str, str]:
        """Whom it is of: the subject and its id."""
        subject, _, subject_id = self.cleaned_data["whom"].partition(":")
        return subject, subject_id


class AlertForm(forms.Form):
    """Where alerts go."""

    mail_managers = forms.BooleanField(label="Mail every tenant manager", required=False)
    emails = forms.CharField(
        label="Mail these too",
        required=False,
        max_length=3000,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
        help_text=f"At most {EMAILS_MAX} addresses, with commas or on lines of their own.",
    )
    webhook_url = forms.CharField(
        label="Call this address",
        required=False,
        max_length=URL_MAX_CHARS,
        widget=forms.URLInput(attrs={"placeholder": "https://example.com/hooks/limits"}),
        help_text="A webhook: each alert is sent there as JSON, signed with the secret.",
    )
    new_secret = forms.BooleanField(label="Make a new secret", required=False)

    def clean_emails(self) -> list[str]:
        words = [word for word in re.split(r"[\s,;]+", self.cleaned_data["emails"]) if word]
        for word in words:
            validate_email(word)
        if len(words) > EMAILS_MAX:
            raise forms.ValidationError(f"These are {len(words)} addresses; {EMAILS_MAX} are most.")
        return words
