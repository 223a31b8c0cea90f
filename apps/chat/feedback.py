"""A reader's thumb on an answer: given, changed and taken back by whoever asked, nobody else."""

from __future__ import annotations

import uuid
from typing import Literal

from apps.chat.errors import FeedbackRefused, UnknownAnswer
from apps.chat.models import Feedback, Message, MessageState
from apps.chat.selectors import get_answer, state_of
from apps.tenants.access import Access
from apps.tenants.scope import tenant_scope

COMMENT_CHARS = 2000
Thumb = Literal[1, -1]


def read_thumb(value: str) -> Thumb | None:
    """The thumb that a form sent: up, down, or None where it is taken back ("0")."""
    thumbs: dict[str, Thumb | None] = {"1": 1, "-1": -1, "0": None}
    if value not in thumbs:
        raise FeedbackRefused("Choose thumb up or thumb down.")
    return thumbs[value]


def give_feedback(
    *, access: Access, answer_id: uuid.UUID, thumb: Thumb, comment: str | None = None
) -> Feedback:
    """Put a thumb on one's own answer, or change it; `comment` None leaves the one there is.

    Raises UnknownAnswer, or FeedbackRefused for an answer that is not there to be judged yet and
    for an over-long comment.
    """
    changes: dict[str, object] = {"thumb": thumb}
    if comment is not None:
        changes["comment"] = _clean(comment)
    with tenant_scope(access.tenant.id):
        answer = _own_answer(access, answer_id)
        if state_of(answer) in (MessageState.STREAMING, MessageState.FAILED):
            raise FeedbackRefused("There is no answer to judge here yet. Wait until it is done.")
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
        raise UnknownAnswer("That answer is no longer there. Reload the page.")
    return answer


def _clean(comment: str) -> str:
    # Browsers send line ends as CRLF but count them as one character.
    comment = comment.replace("\x00", "").replace("\r\n", "\n").strip()
    if len(comment) > COMMENT_CHARS:
        raise FeedbackRefused(
            f"The comment has {len(comment):,} characters; the limit is {COMMENT_CHARS:,}."
        )
    return comment
