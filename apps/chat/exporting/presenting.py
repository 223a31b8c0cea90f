"""The branch that is shown, in the reader's language: what Markdown and PDF are written from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from django.utils import timezone, translation
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from apps.chat.exporting.cleaning import clean, clean_name
from apps.chat.exporting.sheet import Sheet, SheetPart, SheetSource
from apps.chat.exporting.tree import all_runs, parse, plain
from apps.chat.exporting.types import ExportedCitation, ExportedConversation, ExportedMessage
from apps.chat.models import MessageRole, MessageState
from apps.chat.pipeline.types import Sentence
from apps.chat.rendering.marks import doubt_in_words, put_marks
from apps.chat.rendering.positions import PRIVATE


def sheet_of(
    document: ExportedConversation, *, tenant_name: str, model_labels: Mapping[str, str]
) -> Sheet:
    """Times are in UTC, as everywhere on the site."""
    language, _dash, region = (translation.get_language() or "en").partition("-")
    made_on = datetime.fromisoformat(document["exported_at"])
    return Sheet(
        title=clean_name(document["title"]) or _("Untitled conversation"),
        detail=_("%(tenant)s, exported on %(when)s")
        % {"tenant": clean_name(tenant_name), "when": _when(made_on)},
        language=language,
        region="cn" if region == "hans" else "",
        rtl=translation.get_language_bidi(),
        made_on=made_on,
        unshown_label=_(
            "Characters that cannot be shown here stand as their code, such as [U+12000]. "
            "The Markdown file has them as they are."
        ),
        parts=tuple(_parts(document, model_labels)),
    )


def _parts(document: ExportedConversation, labels: Mapping[str, str]) -> Iterator[SheetPart]:
    number = 0
    for message in document["messages"]:
        if not message["shown"]:
            continue
        if message["role"] == MessageRole.QUESTION:
            number += 1
            yield _question(message, number)
        else:
            yield _answer(message, labels)


def _question(message: ExportedMessage, number: int) -> SheetPart:
    text = clean(PRIVATE.sub("", message["text"]))
    return SheetPart(
        is_answer=False,
        label=_("Question %(number)d") % {"number": number},
        detail=_when(datetime.fromisoformat(message["created_at"])),
        text=text,
        blocks=plain(text),
    )


def _answer(message: ExportedMessage, labels: Mapping[str, str]) -> SheetPart:
    sources = _listed(message)
    blocks = parse(clean(_marked(message, sources)))
    reasons = dict.fromkeys(run.text for run in all_runs(blocks) if run.kind == "doubt")
    model = labels.get(message["model"], message["model"])
    when = _when(datetime.fromisoformat(message["finished_at"] or message["created_at"]))
    cited = any(each["cited"] for each in sources)
    return SheetPart(
        is_answer=True,
        label=_("Answer"),
        detail=f"{clean_name(model)} · {when}" if model else when,
        text="",
        blocks=blocks,
        notes=tuple(_notes(message)),
        doubts=tuple(dict.fromkeys(doubt_in_words(reason) for reason in reasons)),
        sources_label=_("Sources") if cited else _("Nearest passages"),
        sources=tuple(_source(each) for each in sources),
    )


def _listed(message: ExportedMessage) -> list[ExportedCitation]:
    """The sources that the answer used; where it used none, those that came nearest."""
    cited = [each for each in message["citations"] if each["cited"]]
    return cited or message["citations"]


def _marked(message: ExportedMessage, sources: list[ExportedCitation]) -> str:
    """The answer with the marks that the page shows: those its sentences earned."""
    sentences = [
        Sentence(s["start"], s["end"], tuple(s["citations"]), s["supported"], s["reason"])
        for s in message["sentences"]
    ]
    listed = {each["number"]: ("", "") for each in sources}
    return put_marks(PRIVATE.sub("", message["text"]), sentences, listed)


def _notes(message: ExportedMessage) -> Iterator[str]:
    for notice in message["notices"]:
        yield clean_name(notice["message"])
    match message["state"]:
        case MessageState.STOPPED:
            yield _("This answer was stopped. It holds what had been written by then.")
        case MessageState.INTERRUPTED:
            yield _("This answer broke off. It holds what had been written by then.")
        case MessageState.STREAMING:
            yield _("This answer was still being written when it was exported.")
        case MessageState.FAILED if not message["notices"]:
            yield _("There was no answer: it failed.")


def _source(citation: ExportedCitation) -> SheetSource:
    first, last = citation["page_first"], citation["page_last"]
    pages = _("page %(first)s") if first == last else _("pages %(first)s to %(last)s")
    return SheetSource(
        number=citation["number"],
        document=clean_name(citation["document"]),
        place=pages % {"first": first, "last": last},
    )


def _when(moment: datetime) -> str:
    local = timezone.localtime(moment)
    return f"{date_format(local, 'DATE_FORMAT')}, {local:%H:%M} {local.tzname()}"
