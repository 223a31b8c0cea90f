"""A tenant that looks used: what `tests.world` makes, and beside it the states that pages show."""

from __future__ import annotations

import random
import uuid
from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.utils import timezone

from apps.chat.models import Citation, Conversation, Message, MessageRole, MessageState
from apps.documents.models import Collection, Document, DocumentState
from apps.evals.configuration import describe
from apps.evals.figures import Result, summarise
from apps.evals.metrics import METRICS, STAGES
from apps.evals.models import Alert, EvalRun, LabelledQuestion, LabelledSet, RunQuestion
from apps.gateway.ledger.booking import book
from apps.gateway.ledger.prices import PriceRule
from apps.gateway.types import CacheNote, CacheResult, Call, Caller, Source, Usage
from apps.retrieval.options import options_for
from apps.retrieval.selectors import active_index
from apps.tenants.models import Invitation, Membership, Role, Tenant, User
from apps.tenants.scope import tenant_scope
from apps.tenants.tokens import hash_token
from tests.capacity.factories import make_point, make_records, make_test
from tests.cast import make_user
from tests.world import Arguments, furnish

NIGHTS = 9
QUESTIONS = 12
LONG_NAME = "Betriebsanleitung-Hochdruckreinigungsanlage-Werk-Süd-überarbeitete-Fassung-2026-04.pdf"
ANSWER = """The house opens **at nine** [1].

| Day | From | To |
|---|---|---|
| Monday | 9:00 | 17:00 |
| Sunday | closed | |

1. Ring the bell.
2. Ask for `reception`.

```python
def opens(day: str) -> int:
    return 9 if day != "Sunday" else 0
```

> Doors are locked at *five*.
"""


def fill(tenant: Tenant, *, manager: User) -> Arguments:
    """Everything of `tests.world` for `manager`, and more of it, in many states."""
    named = furnish(tenant, manager=manager, member=manager)
    _people(tenant, manager)
    with tenant_scope(tenant.id):
        _documents(tenant, named)
        _conversations(tenant, manager, named)
        _runs(tenant, named)
    _calls(tenant, manager, uuid.UUID(str(named["conversation_id"])))
    return {**named, **_load_tests(manager)}


def _load_tests(user: User) -> Arguments:
    """One that found its knee, and others that did not, or have not ended."""
    done = make_test(user=user, loads=(0.5, 1.0, 2.0, 4.0), repeats=2)
    make_point(done, 4.0, repeat=2, records=make_records(4.0, failed=6, seed=2))
    make_test(name=LONG_NAME * 2, state="failed", error_code="target_down", with_points=False)
    progress = {"purpose": "knee", "load": 2.8, "repeat": 0, "done": 9, "of": 20}
    make_test(name="Under way", state="running", knee=None, progress=progress, loads=(1.0,))
    return {"loadtest_id": done.id, "point_number": done.points.count() - 1}


def _people(tenant: Tenant, manager: User) -> None:
    for name, role in (("dora", Role.MEMBER), ("emil", Role.CORPUS_ADMIN)):
        Membership.objects.create(tenant=tenant, user=make_user(name), role=role)
    Invitation.objects.create(
        tenant=tenant,
        email="late@acme.example",
        role=Role.CORPUS_ADMIN,
        token_hash=hash_token("late"),
        invited_by=manager,
        expires_at=timezone.now() - timedelta(days=1),
    )


def _documents(tenant: Tenant, named: Arguments) -> None:
    collection = Collection.objects.get(tenant=tenant, id=str(named["collection_id"]))
    states = [
        (LONG_NAME, DocumentState.READY, "", ["manual", "süd"]),
        ("قواعد-الدار.docx", DocumentState.READY, "", []),
        ("minutes.md", DocumentState.PARSING, "", []),
        ("archive.pdf", DocumentState.INDEXING, "", []),
        ("new.txt", DocumentState.RECEIVED, "", []),
        ("locked.pdf", DocumentState.FAILED, "pdf_encrypted", []),
        ("torn.docx", DocumentState.FAILED, "corrupt", []),
    ]
    for number, (name, state, code, tags) in enumerate(states):
        Document.objects.create(
            tenant=tenant,
            collection=collection,
            path=f"{name}",
            name=name,
            kind="application/pdf",
            size_bytes=120_000 * (number + 1),
            sha256=f"{number:064x}",
            storage_key=f"none/{number}",
            state=state,
            progress_done=40,
            progress_total=100,
            error_code=code,
            error_message="It cannot be read as it is." if code else "",
            page_count=number + 1,
            chunk_count=12 * (number + 1),
            language="de" if number % 2 else "en",
            tags=tags,
        )
    Collection.objects.create(tenant=tenant, name="An empty collection")


def _conversations(tenant: Tenant, user: User, named: Arguments) -> None:
    shown = Conversation.objects.get(tenant=tenant, id=str(named["conversation_id"]))
    cited = Citation.objects.get(tenant=tenant, id=str(named["citation_id"]))
    before = cited.message_id
    ends = [
        (MessageState.COMPLETE, "generated", ANSWER),
        (MessageState.COMPLETE, "quoted", "“Acme opens at nine.” [1]"),
        (MessageState.COMPLETE, "not_found", "The documents say nothing about that."),
        (MessageState.STOPPED, "generated", "It is said that"),
        (MessageState.INTERRUPTED, "generated", "First of all"),
        (MessageState.FAILED, "", ""),
    ]
    for number, (state, kind, text) in enumerate(ends):
        question = _message(shown, MessageRole.QUESTION, f"And what of {number}?", before)
        answer = _message(
            shown,
            MessageRole.ANSWER,
            text,
            question.id,
            state=state,
            kind=kind,
            model="furniture",
            prompt_tokens=800,
            completion_tokens=120,
            cost_micros=190,
            finished_at=timezone.now(),
        )
        before = answer.id
        if kind:
            Citation.objects.create(
                tenant=tenant,
                message=answer,
                marker=1,
                cited=kind == "generated",
                document_id=cited.document_id,
                document_name=cited.document_name,
                heading_path="House rules › Hours",
                page_first=1,
                page_last=1,
                char_start=0,
                char_end=10,
                score=0.81,
            )
    for number in range(6):
        Conversation.objects.create(
            tenant=tenant, user=user, title=f"An earlier question, number {number}, at some length"
        )


def _message(
    conversation: Conversation, role: MessageRole, text: str, after: uuid.UUID, **values: object
) -> Message:
    return Message.objects.create(
        tenant_id=conversation.tenant_id,
        conversation=conversation,
        role=role,
        text=text,
        in_reply_to=after,
        **values,
    )


def _runs(tenant: Tenant, named: Arguments) -> None:
    """A run each night, and the last one worse: charts, slices, a comparison, an alert."""
    dice = random.Random(3)  # noqa: S311 - figures for looks
    labelled = LabelledSet.objects.get(tenant=tenant, id=str(named["set_id"]))
    questions = list(LabelledQuestion.objects.filter(tenant=tenant, labelled_set=labelled))
    questions += [
        LabelledQuestion.objects.create(
            tenant=tenant, labelled_set=labelled, key=f"q{n}", text=f"Question {n}?", slices=["how"]
        )
        for n in range(QUESTIONS)
    ]
    runs = list(EvalRun.objects.filter(tenant=tenant, labelled_set=labelled))
    runs += [
        EvalRun.objects.create(
            tenant=tenant, labelled_set=labelled, trigger="nightly", state=EvalRun.State.DONE
        )
        for _ in range(NIGHTS)
    ]
    configuration = describe(
        labelled_set=labelled,
        options=options_for(tenant.id),
        index=active_index(tenant.id),
        stages=None,
        is_default=True,
    )
    for night, run in enumerate(runs):
        _measure(run, questions, dice)
        EvalRun.objects.filter(tenant=tenant, id=run.id).update(
            configuration=configuration,
            created_at=timezone.now() - timedelta(days=len(runs) - night),
        )
    fell = {"before": 0.84, "after": 0.61, "low": -0.31, "high": -0.12, "questions": QUESTIONS}
    Alert.objects.create(
        tenant=tenant, kind="metric_fell", run=runs[-1], metric="ndcg@10", figures=fell
    )


def _measure(run: EvalRun, questions: list[LabelledQuestion], dice: random.Random) -> None:
    results, rows = [], []
    for question in questions:
        metrics = {stage: {name: dice.random() for name in METRICS} for stage in STAGES}
        hops = {"embed": 9.0, "search": 14.0, "rerank": 90.0}
        results.append(Result(metrics, dice.random(), 10, hops, [], False, question.slices))
        rows.append(
            RunQuestion(
                tenant_id=run.tenant_id,
                run=run,
                question=question,
                metrics=metrics,
                relevance=0.6,
                rows=10,
                hops=hops,
                fingerprint=question.key,
            )
        )
    RunQuestion.objects.bulk_create(rows, ignore_conflicts=True)
    figures = summarise(results, stages=STAGES, limit=10, seed=0)
    EvalRun.objects.filter(tenant_id=run.tenant_id, id=run.id).update(
        figures=figures, done=len(rows), total=len(rows)
    )


def _calls(tenant: Tenant, user: User, conversation: uuid.UUID) -> None:
    """Priced calls, one that a cache spared, one without a price."""
    price = PriceRule(1, "paid", "", datetime(2026, 1, 1, tzinfo=UTC), 150_000, 75_000, 600_000)
    caller = Caller(tenant.id, tenant.time_zone, Source.CHAT, user.id, None, conversation)
    miss, hit = CacheNote(CacheResult.MISS), CacheNote(CacheResult.HIT, "", 800, 850.0)
    paid = Call("generate", "paid", "paid", usage=Usage(4000, 100, 300), total_ms=900, cache=miss)
    free = Call("generate", "free", "unpriced", usage=Usage(50, 0, 7, estimated=True))
    calls = [(paid, price)] * 4 + [(Call("generate", "paid", cache=hit), None), (free, None)]
    with transaction.atomic():
        for call, price_then in calls:
            book(caller, uuid.uuid4(), call, price_then)
