"""What people type about a collection, and about a document that needs help."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from django import forms

from apps.documents.models import Collection, Source
from apps.documents.parsing.encodings import ENCODINGS
from apps.documents.watching import INTERVALS
from apps.tenants.models import Role
from apps.tenants.selectors import members_of

# Those above a member read every collection, so only members are chosen.
_OPEN_CHOICES = [("True", "Everyone in the organisation"), ("False", "Only the people I choose")]


class CollectionForm(forms.Form):
    """Name, description and readers of a collection."""

    name = forms.CharField(
        max_length=200, widget=forms.TextInput(attrs={"autocomplete": "off", "autofocus": True})
    )
    description = forms.CharField(
        max_length=2000, required=False, widget=forms.Textarea(attrs={"rows": 3})
    )
    open_to_all = forms.TypedChoiceField(
        choices=_OPEN_CHOICES,
        coerce=lambda value: value == "True",
        widget=forms.RadioSelect,
        initial="True",
    )
    readers = forms.TypedMultipleChoiceField(
        coerce=int, required=False, widget=forms.CheckboxSelectMultiple
    )

    def __init__(self, *args: Any, tenant_id: uuid.UUID, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        members = members_of(tenant_id).filter(role=Role.MEMBER)
        self.fields["readers"].choices = [  # type: ignore[attr-defined]
            (member.user_id, member.user.email) for member in members
        ]

    def settings(self) -> dict[str, Any]:
        """What services take: name, description, open_to_all and reader_ids."""
        data = self.cleaned_data
        return {
            "name": data["name"],
            "description": data["description"],
            "open_to_all": data["open_to_all"],
            "reader_ids": [] if data["open_to_all"] else data["readers"],
        }


class SourceForm(forms.Form):
    """A folder or prefix to watch. Only kinds for which there is a place can be chosen."""

    kind = forms.ChoiceField()
    location = forms.CharField(
        max_length=500, widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"})
    )
    every_minutes = forms.TypedChoiceField(coerce=int, initial=15)

    def __init__(self, *args: Any, kinds: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **{"auto_id": "source-%s", **kwargs})
        labels = dict(Source.Kind.choices)
        self.fields["kind"].choices = [(kind, labels[kind]) for kind in kinds]  # type: ignore[attr-defined]
        self.fields["every_minutes"].choices = [  # type: ignore[attr-defined]
            (minutes, words.capitalize()) for minutes, words in INTERVALS.items()
        ]


def initial_of(collection: Collection, reader_ids: list[int]) -> dict[str, object]:
    """The form's first values for a collection that exists."""
    return {
        "name": collection.name,
        "description": collection.description,
        "open_to_all": str(collection.open_to_all),
        "readers": reader_ids,
    }


class PasswordForm(forms.Form):
    """A protected document's password: nothing is trimmed, and it is never shown again."""

    password = forms.CharField(
        strip=False,
        max_length=1024,
        error_messages={"required": "Type the password of the file."},
        widget=forms.PasswordInput(
            attrs={"autocomplete": "off", "spellcheck": "false", "data-1p-ignore": "true"}
        ),
    )


class EncodingForm(forms.Form):
    """How a text's characters are encoded."""

    encoding = forms.ChoiceField(choices=[("", "Choose an encoding"), *ENCODINGS])
