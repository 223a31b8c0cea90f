"""One object of every kind that a tenant's address can name, in each of two tenants."""

from __future__ import annotations

import io
import uuid
from datetime import timedelta

from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone
from fpdf import FPDF

from apps.chat.models import (
    Citation,
    Conversation,
    Feedback,
    Folder,
    Message,
    MessageRole,
    Share,
)
from apps.documents.models import (
    Batch,
    Chunk,
    Collection,
    CollectionReader,
    Document,
    DocumentState,
    Page,
    Source,
    SourceFile,
    SourceRun,
)
from apps.documents.services import open_batch, receive_upload
from apps.evals.models import (
    Alert,
    AnswerResult,
    AnswerRun,
    EvalRun,
    Label,
    LabelledQuestion,
    LabelledSet,
    Proposal,
    RunQuestion,
    TuneRun,
)
from apps.gateway.models import AlertTarget, CachedResponse, SemanticHit
from apps.retrieval.models import EmbeddingIndex, IndexBuild, SearchProfile, SwitchOverride
from apps.tenants.models import Invitation, Limit, Membership, Role, Tenant, User
from apps.tenants.scope import tenant_scope
from apps.tenants.services import create_key
from apps.tenants.tokens import hash_token

Arguments = dict[str, object]


def furnish(tenant: Tenant, *, manager: User, member: User) -> Arguments:
    """Make one of everything in `tenant`, and name it as the addresses do.

    What belongs to one person (membership, conversation) is `member`'s. An address with an
    argument that is missing here fails the test of rights: add it.
    """
    key, _ = create_key(tenant=tenant, name="Key", expires_at=None, actor=manager)
    limit = Limit.objects.create(
        tenant=tenant, subject="tenant", measure="documents", amount=1000, given_by="manager"
    )
    invitation = Invitation.objects.create(
        tenant=tenant,
        email=f"guest@{tenant.slug}.example",
        role=Role.MEMBER,
        token_hash=hash_token(tenant.slug),
        invited_by=manager,
        expires_at=timezone.now() + timedelta(days=1),
    )
    with tenant_scope(tenant.id):
        document = _document(tenant, manager, member)
        conversation, answer, citation = _conversation(tenant, member, document)
        chunk = Chunk.objects.get(tenant=tenant, document=document)
        source = _source(tenant, document)
        evals = _evals(tenant, member, document, answer)
        gateway = _gateway(tenant)
    return {
        **evals,
        **gateway,
        "membership_id": Membership.objects.get(tenant=tenant, user=member).id,
        "invitation_id": invitation.id,
        "key_id": key.id,
        "limit_id": limit.id,
        "collection_id": document.collection_id,
        "document_id": document.id,
        "batch_id": document.batch_id,
        "page": 1,
        "chunk_id": chunk.id,
        "conversation_id": conversation.id,
        "message_id": answer.id,
        "answer_id": answer.id,
        "citation_id": citation.id,
        "format": "markdown",
        "source_id": source.id,
    }


def _gateway(tenant: Tenant) -> Arguments:
    response = CachedResponse.objects.create(
        tenant=tenant,
        key=b"k" * 32,
        scope=b"s" * 32,
        question="When?",
        payload={"text": "At nine."},
        expires_at=timezone.now() + timedelta(days=1),
    )
    hit = SemanticHit.objects.create(
        tenant=tenant,
        response_id=response.id,
        asked="At what time?",
        answered="When?",
        similarity=0.98,
    )
    AlertTarget.objects.create(tenant=tenant, emails=[f"money@{tenant.slug}.example"])
    return {"hit_id": hit.id}


def _document(tenant: Tenant, manager: User, member: User) -> Document:
    collection = Collection.objects.create(tenant=tenant, name="Handbook")
    CollectionReader.objects.create(tenant=tenant, collection=collection, user=member)
    text = f"{tenant.name} opens at nine."
    file = SimpleUploadedFile("hours.pdf", _pdf(text), "application/pdf")
    batch = open_batch(
        tenant=tenant, collection=collection, user=manager, source=Batch.Source.UPLOAD
    )
    document = receive_upload(
        tenant=tenant, collection=collection, user=manager, path="hours.pdf", file=file, batch=batch
    )
    Document.objects.filter(tenant=tenant, id=document.id).update(
        state=DocumentState.READY, kind="application/pdf", page_count=1, chunk_count=1
    )
    Page.objects.create(tenant=tenant, document=document, number=1, text=text, char_start=0)
    Chunk.objects.create(
        tenant=tenant,
        document=document,
        ordinal=0,
        text=text,
        char_start=0,
        char_end=len(text),
        page_first=1,
        page_last=1,
        token_count=6,
    )
    return Document.objects.get(tenant=tenant, id=document.id)


def _evals(tenant: Tenant, user: User, document: Document, answer: Message) -> Arguments:
    """A labelled set with a question, two runs, what is proposed, an alert and a curve."""
    index = EmbeddingIndex.objects.create(
        tenant=tenant, model_id="furniture", dimensions=64, chunker_version=1
    )
    build = IndexBuild.objects.create(
        tenant=tenant, source=index, target=index, source_label="words", target_label="words"
    )
    SwitchOverride.objects.create(tenant=tenant, build=build, reason="It had to be.", by=user)
    labelled = LabelledSet.objects.create(
        tenant=tenant,
        collection_id=document.collection_id,
        name="Hours",
        origin=LabelledSet.Origin.MARKED,
    )
    question = LabelledQuestion.objects.create(
        tenant=tenant, labelled_set=labelled, key="1", text="When does it open?"
    )
    label = Label.objects.create(
        tenant=tenant, question=question, document=document, char_start=0, char_end=5
    )
    runs = [
        EvalRun.objects.create(
            tenant=tenant, labelled_set=labelled, trigger=EvalRun.Trigger.MANUAL, state=state
        )
        for state in (EvalRun.State.DONE, EvalRun.State.DONE)
    ]
    for run in runs:
        RunQuestion.objects.create(tenant=tenant, run=run, question=question)
    gate = AnswerRun.objects.create(
        tenant=tenant,
        set_id=labelled.id,
        collection_id=document.collection_id,
        alias="large",
        candidate={},
        in_force={},
        fingerprint="0" * 64,
        sample=1,
        budgets={},
    )
    AnswerResult.objects.create(tenant=tenant, run=gate, question=question)
    Feedback.objects.create(tenant=tenant, message=answer, user=user, thumb=1)
    folder = Folder.objects.create(tenant=tenant, user=user, name="Work")
    share = Share.objects.create(
        tenant=tenant, conversation_id=answer.conversation_id, user=user, leaf_id=answer.id
    )
    proposal = Proposal.objects.create(
        tenant=tenant,
        answer=answer,
        thumb=1,
        question="When does it open?",
    )
    alert = Alert.objects.create(tenant=tenant, kind=Alert.Kind.METRIC_FELL, run=runs[0])
    curve = TuneRun.objects.create(tenant=tenant, index_id=index.id)
    profile = SearchProfile.objects.create(
        tenant=tenant,
        origin=SearchProfile.Origin.MANUAL,
        ef_search=100,
        leg_candidates=100,
        rerank_candidates=20,
        m=16,
        ef_construction=64,
        not_found_below=0.42,
    )
    return {
        "set_id": labelled.id,
        "question_id": question.id,
        "label_id": label.id,
        "gate_id": gate.id,
        "run_id": runs[0].id,
        "other_run_id": runs[1].id,
        "proposal_id": proposal.id,
        "alert_id": alert.id,
        "curve_id": curve.id,
        "profile_id": profile.id,
        "build_id": build.id,
        "folder_id": folder.id,
        "share_id": share.id,
    }


def _source(tenant: Tenant, document: Document) -> Source:
    source = Source.objects.create(
        tenant=tenant,
        collection_id=document.collection_id,
        kind=Source.Kind.FOLDER,
        location=f"/srv/{tenant.slug}",
        every_minutes=15,
    )
    SourceRun.objects.create(tenant=tenant, source=source)
    SourceFile.objects.create(
        tenant=tenant,
        source=source,
        path=document.path,
        size_bytes=document.size_bytes,
        stamp="1",
        document=document,
    )
    return source


def _conversation(
    tenant: Tenant, user: User, document: Document
) -> tuple[Conversation, Message, Citation]:
    conversation = Conversation.objects.create(tenant=tenant, user=user, title="Hours")
    question = Message.objects.create(
        tenant=tenant, conversation=conversation, role=MessageRole.QUESTION, text="When?"
    )
    answer = Message.objects.create(
        tenant=tenant,
        conversation=conversation,
        role=MessageRole.ANSWER,
        text="At nine. [1]",
        in_reply_to=question.id,
        kind="generated",
        finished_at=timezone.now(),
    )
    citation = Citation.objects.create(
        tenant=tenant,
        message=answer,
        marker=1,
        cited=True,
        document=document,
        document_name=document.name,
        page_first=1,
        page_last=1,
        char_start=0,
        char_end=10,
        score=0.9,
    )
    return conversation, answer, citation


def _pdf(text: str) -> bytes:
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("Helvetica", size=14)
    pdf.cell(text=f"{text} {uuid.uuid4()}")
    buffer = io.BytesIO()
    pdf.output(buffer)
    return buffer.getvalue()
