"""What people type about labelled sets and questions, and what they search for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile

from apps.documents.models import Collection
from apps.evals import fields
from apps.evals.errors import QuestionRefused
from apps.evals.models import LabelledQuestion
from apps.evals.services.sets import NAME_MAX_CHARS
from apps.retrieval.options import SearchFilter

T = TypeVar("T")
_FILES_MAX = 2
_NO_COMPLETION = {"autocomplete": "off"}


class _Files(forms.ClearableFileInput):
    allow_multiple_selected = True


class FilesField(forms.FileField):
    """One file or two; `clean` gives a list."""

    def __init__(self) -> None:
        accept = ".zip,.csv,.tsv,.txt,.jsonl,.ndjson,.json"
        super().__init__(widget=_Files(attrs={"accept": accept}), allow_empty_file=True)

    def clean(self, data: Any, initial: Any = None) -> list[UploadedFile[Any]]:
        given = (data if isinstance(data, list | tuple) else [data]) or [None]
        if len(given) > _FILES_MAX:
            raise forms.ValidationError("Choose one file, or queries.jsonl with its qrels.")
        return [super(FilesField, self).clean(each, initial) for each in given]


class UploadForm(forms.Form):
    """Files of labelled questions, and the set they go into."""

    name = forms.CharField(max_length=NAME_MAX_CHARS, widget=forms.TextInput(attrs=_NO_COMPLETION))
    collection = forms.ModelChoiceField(queryset=Collection.objects.none(), empty_label=None)
    upload = FilesField()

    def __init__(self, *args: Any, collections: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["collection"].queryset = collections  # type: ignore[attr-defined]


class SetForm(forms.Form):
    """A set's name, and whether it is measured by itself."""

    name = forms.CharField(max_length=NAME_MAX_CHARS, widget=forms.TextInput(attrs=_NO_COMPLETION))
    nightly = forms.BooleanField(required=False)


class QuestionForm(forms.Form):
    """A question by hand."""

    text = forms.CharField(widget=forms.Textarea(attrs={"rows": 2}), label="Question")
    reference_answer = forms.CharField(
        required=False,
        max_length=fields.ANSWER_MAX_CHARS,
        widget=forms.Textarea(attrs={"rows": 3}),
    )
    slices = forms.CharField(required=False, widget=forms.TextInput(attrs=_NO_COMPLETION))
    unanswerable = forms.BooleanField(required=False)

    def clean_text(self) -> str:
        return _checked(lambda: fields.question_text(self.cleaned_data["text"]))

    def clean_slices(self) -> list[str]:
        return _checked(lambda: fields.split_slices(self.cleaned_data["slices"]))


def _checked(read: Callable[[], T]) -> T:
    try:
        return read()
    except QuestionRefused as exc:
        raise forms.ValidationError(str(exc)) from exc


def initial_of(question: LabelledQuestion) -> dict[str, Any]:
    """The form's first values for a question that exists."""
    return {
        "text": question.text,
        "reference_answer": question.reference_answer,
        "slices": ", ".join(question.slices),
        "unanswerable": question.unanswerable,
    }


class SearchForm(forms.Form):
    """A question, where to look for its passages, and which documents to look in."""

    question = forms.CharField(widget=forms.TextInput(attrs={"type": "search", **_NO_COMPLETION}))
    collections = forms.ModelMultipleChoiceField(
        queryset=Collection.objects.none(), required=False, widget=forms.CheckboxSelectMultiple
    )
    kinds = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)
    tags = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)
    added_from = forms.DateField(required=False, widget=forms.DateInput(attrs={"type": "date"}))
    added_to = forms.DateField(required=False, widget=forms.DateInput(attrs={"type": "date"}))

    def __init__(
        self,
        *args: Any,
        collections: Any,
        kinds: Iterable[tuple[str, str]],
        tags: Iterable[str],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.fields["collections"].queryset = collections  # type: ignore[attr-defined]
        self.fields["kinds"].choices = list(kinds)  # type: ignore[attr-defined]
        self.fields["tags"].choices = [(tag, tag) for tag in tags]  # type: ignore[attr-defined]
        self.fields["question"].widget.attrs["maxlength"] = settings.QUESTION_MAX_CHARS

    def clean_question(self) -> str:
        return _checked(lambda: fields.question_text(self.cleaned_data["question"]))

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        first, last = data.get("added_from"), data.get("added_to")
        if first and last and last < first:
            self.add_error("added_to", "This is before the day it begins with.")
        return data

    def narrowed(self) -> SearchFilter:
        data = self.cleaned_data
        return SearchFilter(
            kinds=tuple(data["kinds"]),
            tags=tuple(data["tags"]),
            added_from=data["added_from"],
            added_to=data["added_to"],
        )
