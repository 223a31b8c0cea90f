"""From thumbs in the chat to labelled questions: proposed, reviewed, taken or dismissed."""

from __future__ import annotations

from collections.abc import Sequence

from apps.chat.selectors import FeedbackGiven, feedback_to_review
from apps.evals import fields
from apps.evals.errors import ProposalDone, SetGone
from apps.evals.models import Label, LabelledQuestion, LabelledSet, Proposal
from apps.evals.services.labels import Marked, label_places
from apps.telemetry.services import record_audit
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope

_KEY = "answer-{}"  # of the question that a proposal becomes: its own, so that it can be undone


def collect_proposals(*, tenant: Tenant) -> int:
    """Make proposals of the thumbs in the chat; how many wait to be reviewed.

    The same again changes nothing. A proposal that waits follows its thumb: changed with it, and
    gone when it is taken back. One that was reviewed stays as it was.
    """
    with tenant_scope(tenant.id):
        given = {each.message_id: each for each in feedback_to_review(tenant.id)}
        rows = Proposal.objects.filter(tenant=tenant)
        waiting = rows.filter(state=Proposal.State.WAITING)
        waiting.exclude(answer__in=given).delete()
        reviewed = rows.exclude(state=Proposal.State.WAITING)
        done = set(reviewed.filter(answer__in=given).values_list("answer_id", flat=True))
        Proposal.objects.bulk_create(
            [_proposal(tenant, each) for each in given.values() if each.message_id not in done],
            update_conflicts=True,
            unique_fields=["tenant", "answer"],
            update_fields=["thumb", "comment", "question"],
        )
        return waiting.count()


def _proposal(tenant: Tenant, given: FeedbackGiven) -> Proposal:
    return Proposal(
        tenant=tenant,
        answer_id=given.message_id,
        thumb=given.thumb,
        comment=fields.clean(given.comment),
        question=fields.clean(given.question),
        given_by_id=given.user_id,
    )


def take_proposal(
    *,
    tenant: Tenant,
    proposal: Proposal,
    labelled_set: LabelledSet,
    user: User,
    question: str,
    grades: Sequence[tuple[Marked, int]],
    unanswerable: bool = False,
) -> LabelledQuestion:
    """Make a question of the set out of a proposal, with grades for some of its passages.

    Raises ProposalDone where somebody was faster, SetGone, PlaceGone, or QuestionRefused.
    """
    text = fields.question_text(question)
    with tenant_scope(tenant.id):
        _settle(tenant, proposal, user, Proposal.State.TAKEN)
        if not LabelledSet.objects.filter(tenant=tenant, id=labelled_set.id).exists():
            raise SetGone("The set was deleted meanwhile. Choose another one.")
        made, _ = LabelledQuestion.objects.update_or_create(
            tenant=tenant,
            labelled_set=labelled_set,
            key=_KEY.format(proposal.answer_id),
            defaults={
                "text": text,
                "unanswerable": unanswerable and not any(grade for _, grade in grades),
            },
        )
        Label.objects.filter(tenant=tenant, question=made).delete()
        if grades:
            label_places(tenant=tenant, question=made, user=user, grades=grades)
        _audit("proposal.taken", tenant, proposal, user)
    return made


def dismiss_proposal(*, tenant: Tenant, proposal: Proposal, user: User) -> None:
    """Nothing is to be learned from it. Raises ProposalDone where somebody was faster."""
    with tenant_scope(tenant.id):
        _settle(tenant, proposal, user, Proposal.State.DISMISSED)
        _audit("proposal.dismissed", tenant, proposal, user)


def reopen_proposal(*, tenant: Tenant, proposal: Proposal, user: User) -> None:
    """Back to where it waited; the question that it became goes, with its labels."""
    with tenant_scope(tenant.id):
        rows = Proposal.objects.filter(tenant=tenant, id=proposal.id)
        rows.update(state=Proposal.State.WAITING, reviewed_by=None)
        LabelledQuestion.objects.filter(tenant=tenant, key=_KEY.format(proposal.answer_id)).delete()
        _audit("proposal.reopened", tenant, proposal, user)


def _settle(tenant: Tenant, proposal: Proposal, user: User, state: Proposal.State) -> None:
    waiting = Proposal.objects.filter(tenant=tenant, id=proposal.id, state=Proposal.State.WAITING)
    if not waiting.update(state=state, reviewed_by=user):
        raise ProposalDone("Somebody has reviewed this one already, or its thumb was taken back.")


def _audit(action: str, tenant: Tenant, proposal: Proposal, user: User) -> None:
    record_audit(action=action, tenant_id=tenant.id, actor_id=user.id, subject_id=proposal.id)
