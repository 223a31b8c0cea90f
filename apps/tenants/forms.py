"""Forms of the tenant's pages."""

from __future__ import annotations

import re
import uuid
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import available_timezones

from allauth.account.forms import SignupForm
from allauth.core import context
from django import forms
from django.utils import timezone

from apps.tenants.accounts import remembered_invitation
from apps.tenants.models import MODEL_NAME_MAX_CHARS, KeyScope, Role

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class InvitedSignupForm(SignupForm):  # type: ignore[misc]
    """Sign-up for the address the invitation went to, and no other."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        invitation = remembered_invitation(context.request)
        if invitation is not None:
            self.initial["email"] = invitation.email
            self.fields["email"].disabled = True  # what is posted for it is ignored


class InviteForm(forms.Form):
    email = forms.EmailField(label="E-mail address", max_length=254)
    role = forms.ChoiceField(label="Role", choices=Role.choices)


class RoleForm(forms.Form):
    role = forms.ChoiceField(label="Role", choices=Role.choices)


class KeyForm(forms.Form):
    name = forms.CharField(
        label="Name", max_length=100, help_text="What will use it, so that you know it later."
    )
    days = forms.TypedChoiceField(
        label="Valid for",
        choices=[(30, "30 days"), (90, "90 days"), (365, "1 year"), (0, "Until it is revoked")],
        initial=90,
        coerce=int,
    )
    scope = forms.TypedChoiceField(
        label="May",
        choices=KeyScope.choices,
        initial=KeyScope.READ,
        coerce=KeyScope,
        required=False,
        empty_value=KeyScope.READ,
    )
    collections = forms.CharField(
        label="Only these collections",
        max_length=4000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
        help_text="Their ids, which are in their pages' addresses. Leave it empty for all of them.",
    )
    may_use_models = forms.BooleanField(
        label="May use models",
        required=False,
        help_text="It may ask models over the OpenAI-compatible API, which uses up your budget.",
    )
    models = forms.CharField(
        label="Only these models",
        max_length=4000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
        help_text="Their names as the API lists them, one a line or with commas between. Leave it "
        "empty for all of them.",
    )

    def clean_collections(self) -> list[uuid.UUID]:
        """The ids, or addresses that hold one."""
        words: str = self.cleaned_data["collections"]
        found = []
        for word in re.split(r"[\s,]+", words.strip()):
            match = _ID.search(word)
            if match is None and word:
                raise forms.ValidationError(f"“{word[:60]}” is not the id of a collection.")
            found += [uuid.UUID(match[0])] if match else []
        return found

    def clean_models(self) -> list[str]:
        """The names, each once. Whether there is such a model is not known here."""
        names = [name.strip() for name in re.split(r"[,\r\n]+", self.cleaned_data["models"])]
        if any(len(name) > MODEL_NAME_MAX_CHARS for name in names):
            raise forms.ValidationError(
                f"A model's name has {MODEL_NAME_MAX_CHARS} characters at most."
            )
        return [name for name in dict.fromkeys(names) if name]

    def clean(self) -> dict[str, Any]:
        """A list of models for a key that may use none is a slip, and better said than ignored."""
        cleaned: dict[str, Any] = super().clean() or {}
        if cleaned.get("models") and not cleaned.get("may_use_models"):
            self.add_error("may_use_models", "Tick this, or take the models out of the list below.")
        return cleaned

    def expires_at(self) -> datetime | None:
        """When the key stops working; None for never."""
        days: int = self.cleaned_data["days"]
        return timezone.now() + timedelta(days=days) if days else None


def _time_zones() -> list[tuple[str, str]]:
    return [(zone, zone) for zone in sorted(available_timezones())]


class SettingsForm(forms.Form):
    name = forms.CharField(label="Name", max_length=200)
    time_zone = forms.ChoiceField(label="Time zone", choices=_time_zones)
    ops_may_read_text = forms.BooleanField(
        label="Let site operations read our documents",
        required=False,
        help_text="Operations always see figures: how many documents and questions, how long each "
        "step took. With this on they can also open your documents, for example to find out why "
        "one fails. Nobody can chat in your name, and you can turn it off at any moment.",
    )
