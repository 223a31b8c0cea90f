"""A reader's thumb on an answer: given, changed and taken back by whoever asked, nobody else."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Literal

from django.utils.formats import number_format
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.chat.errors import FeedbackRefused, UnknownAnswer
from apps.chat.models import Feedback, Message, MessageState
from apps.chat.selectors import get_answer, state_of
from apps.tenants.access import Access
from apps.tenants.scope import tenant_scope

COMMENT_CHARS = 2000
Thumb = Literal[1, -1]
# What a thumb can be given for, by code; stored with it, so codes stay when words change.
REASONS: dict[Thumb, dict[str, Promise]] = {
    1: {
        "right": _("Right"),
        "clear": _("Clear"),
        "good_sources": _("Good sources"),
        "complete": _("Complete"),
    },
    -1: {
        "wrong": _("Wrong"),
        "not_from_documents": _("Not from my documents"),
        "misses_something": _("Misses something"),
        "old_information": _("Old information"),
        "badly_written": _("Badly written"),
    },
}


def read_thumb(value: str) -> Thumb | None:
    """The thumb that a form sent: up, down, or None where it is taken back ("0")."""
    thumbs: dict[str, Thumb | None] = {"1": 1, "-1": -1, "0": None}
    if value not in thumbs:
        raise FeedbackRefused(gettext("Choose thumb up or thumb down."))
    return thumbs[value]


def give_feedback(
    *,
    access: Access,
    answer_id: uuid.UUID,
    thumb: Thumb,
    comment: str | None = None,
    reasons: Sequence[str] | None = None,
) -> Feedback:
    """Put a thumb on one's own answer, or change it; None leaves the comment or reasons there are.

    Reasons of the other thumb go when it turns.

    Raises UnknownAnswer, or FeedbackRefused for an answer that is not there to be judged yet and
    for an over-long comment.
    """
    changes: dict[str, object] = {"thumb": thumb}
    if comment is not None:
        changes["comment"] = _clean(comment)
    with tenant_scope(access.tenant.id):
        answer = _own_answer(access, answer_id)
        before = Feedback.objects.filter(tenant=access.tenant, message=answer, user=access.user)
        had = before.values_list("reasons", flat=True).first() or []
        changes["reasons"] = _of_thumb(thumb, had if reasons is None else reasons)
        if state_of(answer) in (MessageState.STREAMING, MessageState.FAILED):
            raise FeedbackRefused(
                gettext("There is no answer to judge here yet. Wait until it is done.")
            )
        given, _ = Feedback.objects.update_or_create(
            tenant=access.tenant, message=answer, user=access.user, defaults=changes
        )
        return given


def withdraw_feedback(*, access: Access, answer_id: uuid.UUID) -> None:
    """Take one's thumb back, with its comment. Raises UnknownAnswer."""
    with tenant_scope(access.tenant.id):
        answer = _own_answer(access, answer_id)
        Feedback.objects.filter(tenant=access.tenant, message=answer, user=access.user).delete()


def _own_answer(access: Access, answer_id: uuid.UUID) -> Message:
    answer = get_answer(access, answer_id)
    if answer is None:
        raise UnknownAnswer(gettext("That answer is no longer there. Reload the page."))
    return answer


def _of_thumb(thumb: Thumb, reasons: Sequence[str]) -> list[str]:
    """The known ones of this thumb, in their order."""
    return [code for code in REASONS[thumb] if code in reasons]


def reasons_in_words(codes: Iterable[str]) -> list[str]:
    """Stored reasons in the reader's language; unknown codes are left out."""
    words = {code: text for each in REASONS.values() for code, text in each.items()}
    return [str(words[code]) for code in codes if code in words]


def _clean(comment: str) -> str:
    # Browsers send line ends as CRLF but count them as one character.
    comment = comment.replace("\x00", "").replace("\r\n", "\n").strip()
    if len(comment) > COMMENT_CHARS:
        raise FeedbackRefused(
            gettext("The comment has %(length)s characters; the limit is %(limit)s.")
            % {
                "length": number_format(len(comment), force_grouping=True),
                "limit": number_format(COMMENT_CHARS, force_grouping=True),
            }
        )
    return comment
