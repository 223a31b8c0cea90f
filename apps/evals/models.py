"""Labelled sets, the runs that measure retrieval on them, alerts, and measured curves.

What people wrote (questions, answers, notes) is under row-level security. A run's job and its
figures hold none of it, so that workers can choose between tenants and operations can read them.
"""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models

from apps.chat.models import Message
from apps.documents.models import Collection, Document
from apps.tenants.models import Tenant


class LabelledSet(models.Model):
    """Questions about a collection, with the passages that answer them."""

    class Origin(models.TextChoices):
        UPLOAD = "upload", "Uploaded"
        MARKED = "marked", "Marked by hand"
        FEEDBACK = "feedback", "From chat feedback"
        COMMAND = "command", "By a command"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    collection = models.ForeignKey(
        Collection, models.DO_NOTHING, db_constraint=False, db_index=False
    )
    name = models.CharField(max_length=200)
    origin = models.CharField(max_length=8, choices=Origin)
    nightly = models.BooleanField(default=True)  # run each night and after large ingestions
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="labelled_set_tenant_id"),
            models.UniqueConstraint(fields=["tenant", "name"], name="labelled_set_name_once"),
        ]
        indexes: ClassVar = [
            # Deleting a collection cascades here.
            models.Index(fields=["tenant", "collection"], name="labelled_set_collection"),
        ]

    def __str__(self) -> str:
        return self.name


class LabelledQuestion(models.Model):
    """A question of a set. Without labels, it is one that the collection cannot answer."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    labelled_set = models.ForeignKey(
        LabelledSet, models.DO_NOTHING, related_name="questions", db_constraint=False,
        db_index=False,
    )  # fmt: skip
    key = models.CharField(max_length=200)  # its id in the file it came from, or one made here
    text = models.TextField()
    reference_answer = models.TextField(blank=True)
    slices = ArrayField(models.CharField(max_length=60), default=list)
    # Said to have no answer in the collection; one that merely has no labels yet is left out.
    unanswerable = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="labelled_question_tenant_id"),
            models.UniqueConstraint(
                fields=["tenant", "labelled_set", "key"], name="labelled_question_once"
            ),
        ]

    def __str__(self) -> str:
        return self.key


class Label(models.Model):
    """A place in a document that answers a question; it outlives any way of cutting passages.

    From `char_start` to `char_end` of the document's text; both None: the document as a whole.
    """

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    question = models.ForeignKey(
        LabelledQuestion, models.DO_NOTHING, related_name="labels", db_constraint=False,
        db_index=False,
    )  # fmt: skip
    document = models.ForeignKey(Document, models.DO_NOTHING, db_constraint=False, db_index=False)
    char_start = models.PositiveIntegerField(null=True)
    char_end = models.PositiveIntegerField(null=True)
    grade = models.PositiveSmallIntegerField(default=1)  # 0: looked at, and not relevant
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "question", "document", "char_start", "char_end"],
                name="label_once",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=models.Q(char_start__isnull=True, char_end__isnull=True)
                | models.Q(char_end__gt=models.F("char_start")),
                name="label_range",
            ),
        ]
        indexes: ClassVar = [
            # Deleting a document cascades here.
            models.Index(fields=["tenant", "document"], name="label_document"),
        ]

    def __str__(self) -> str:
        return f"label of {self.question_id}"


class Proposal(models.Model):
    """An answer that someone gave a thumb: its question and passages wait to be reviewed."""

    class State(models.TextChoices):
        WAITING = "waiting", "To be reviewed"
        TAKEN = "taken", "Taken into a set"
        DISMISSED = "dismissed", "Dismissed"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    # Of the chat, whose citations are the passages to review. It goes with the conversation.
    answer = models.ForeignKey(Message, models.DO_NOTHING, db_constraint=False, db_index=False)
    thumb = models.SmallIntegerField()  # 1 or -1
    comment = models.TextField(blank=True)
    question = models.TextField()  # as it was searched: a follow-up stands alone
    state = models.CharField(max_length=9, choices=State, default=State.WAITING)
    given_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    reviewed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="proposal_tenant_id"),
            models.UniqueConstraint(fields=["tenant", "answer"], name="proposal_once"),
        ]
        indexes: ClassVar = [
            # What waits to be reviewed, newest first.
            models.Index(fields=["tenant", "state", "-created_at"], name="proposal_waiting"),
        ]

    def __str__(self) -> str:
        return f"proposal {self.id}"


class EvalRun(models.Model):
    """One configuration of the pipeline, measured on one set. Figures and identifiers only."""

    class Trigger(models.TextChoices):
        MANUAL = "manual", "By hand"
        NIGHTLY = "nightly", "Each night"
        INGESTION = "ingestion", "After an ingestion"
        COMMAND = "command", "By a command"
        GATE = "gate", "To compare embedding indexes"

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"
        CANCELLED = "cancelled", "Cancelled"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    labelled_set = models.ForeignKey(
        LabelledSet, models.DO_NOTHING, related_name="runs", db_constraint=False, db_index=False
    )
    trigger = models.CharField(max_length=9, choices=Trigger)
    # What was measured: `SearchOptions` as JSON, the embedding index and its model, the reranker,
    # the number of chunks. Two runs differ by what differs here, or by the documents.
    configuration = models.JSONField(default=dict)
    seed = models.PositiveIntegerField(default=0)
    sample = models.PositiveIntegerField(null=True)  # questions drawn; None: all
    state = models.CharField(max_length=9, choices=State, default=State.WAITING)
    fence = models.PositiveIntegerField(default=0)
    lease_expires_at = models.DateTimeField(null=True)
    attempt = models.PositiveSmallIntegerField(default=0)
    error_code = models.CharField(max_length=60, blank=True)
    done = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0)
    # {"stages": {stage: {metric: mean}}, "slices": {slice: {"questions": n, metric: mean}},
    #  "hops": {hop: {"p50_ms", "p95_ms", "count"}}, "questions": n, "unanswerable": n, ...}
    figures = models.JSONField(default=dict)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="eval_run_tenant_id"),
            models.CheckConstraint(
                condition=models.Q(state__in=["waiting", "running", "done", "failed", "cancelled"]),
                name="eval_run_state",
            ),
        ]
        indexes: ClassVar = [
            # A set's runs, newest first.
            models.Index(fields=["tenant", "labelled_set", "-created_at"], name="eval_run_of_set"),
            # The next run to work on, of all tenants.
            models.Index(
                fields=["created_at"],
                name="eval_run_next",
                condition=models.Q(state__in=["waiting", "running"]),
            ),
        ]

    def __str__(self) -> str:
        return f"run {self.id}"


class RunQuestion(models.Model):
    """What a run found for one question. Written one by one: a killed run goes on from there."""

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    run = models.ForeignKey(
        EvalRun, models.DO_NOTHING, related_name="results", db_constraint=False, db_index=False
    )
    question = models.ForeignKey(
        LabelledQuestion, models.DO_NOTHING, db_constraint=False, db_index=False
    )
    # {stage: {metric: value}}; empty for questions without an answer.
    metrics = models.JSONField(default=dict)
    # {stage: [[chunk, document, char_start, char_end, score, grade], …]}, best first.
    ranked = models.JSONField(default=dict)
    relevance = models.FloatField(default=0.0)  # of the best passage: what abstention looks at
    rows = models.PositiveSmallIntegerField(default=0)  # passages returned
    hops = models.JSONField(default=dict)  # {hop: milliseconds}
    notices = ArrayField(models.CharField(max_length=60), default=list)
    # Of the question's text and labels when it was asked: only alike are two runs compared.
    fingerprint = models.CharField(max_length=16, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "run", "question"], name="run_question_once"),
        ]
        indexes: ClassVar = [
            # Deleting a question cascades here.
            models.Index(fields=["tenant", "question"], name="run_question_question"),
        ]

    def __str__(self) -> str:
        return f"{self.question_id} in {self.run_id}"


class Alert(models.Model):
    """Something that got worse by more than chance, or less than it should be."""

    class Kind(models.TextChoices):
        METRIC_FELL = "metric_fell", "A metric fell"
        ROWS_MISSING = "rows_missing", "A search returned fewer passages than exist"
        RECALL_LOW = "recall_low", "Live recall is under its goal"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    kind = models.CharField(max_length=12, choices=Kind)
    run = models.ForeignKey(
        EvalRun, models.DO_NOTHING, null=True, db_constraint=False, db_index=False
    )
    metric = models.CharField(max_length=40, blank=True)
    # Figures only: {"before", "after", "low", "high", "questions"}, or counts.
    figures = models.JSONField(default=dict)
    at = models.DateTimeField(auto_now_add=True)
    seen_at = models.DateTimeField(null=True)
    seen_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="alert_tenant_id"),
        ]
        indexes: ClassVar = [
            # A tenant's alerts, newest first.
            models.Index(fields=["tenant", "-at"], name="alert_time"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.metric}"


class TuneRun(models.Model):
    """A measured curve: recall@k against latency, over the knobs of search. No readable text."""

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"
        CANCELLED = "cancelled", "Cancelled"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    index_id = models.UUIDField()  # the embedding index it was measured on
    state = models.CharField(max_length=9, choices=State, default=State.WAITING)
    fence = models.PositiveIntegerField(default=0)
    lease_expires_at = models.DateTimeField(null=True)
    attempt = models.PositiveSmallIntegerField(default=0)
    error_code = models.CharField(max_length=60, blank=True)
    done = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0)
    recall_goal = models.FloatField(default=0.98)
    k = models.PositiveSmallIntegerField(default=20)
    # What to vary: {"ef_search": [...], "m": [...], "ef_construction": [...], "storage": [...],
    # "leg_candidates": [...], "rerank_candidates": [...]}.
    grid = models.JSONField(default=dict)
    # [{knob values, "recall", "recall_low", "recall_high", "p50_ms", "p95_ms", "questions",
    #   "rows_min", "build_s", "size_bytes", ...}]
    points = models.JSONField(default=list)
    proposal = models.JSONField(default=dict)  # the cheapest point that meets the goal, or why none
    applied_at = models.DateTimeField(null=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="tune_run_tenant_id"),
        ]
        indexes: ClassVar = [
            # A tenant's curves, newest first.
            models.Index(fields=["tenant", "-created_at"], name="tune_run_time"),
        ]

    def __str__(self) -> str:
        return f"curve {self.id}"


class AnswerRun(models.Model):
    """A gate: a candidate and what is in force answer the same questions. No text of a tenant."""

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"
        CANCELLED = "cancelled", "Cancelled"

    class Verdict(models.TextChoices):
        NONE = "", "None yet"
        PASSED = "passed", "Passed"
        FAILED = "failed", "Failed"
        UNDECIDED = "undecided", "Too few questions to tell"
        OUTDATED = "outdated", "What it was compared with is no longer in force"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    # No reference: the figures outlive the set, the route and the model, and say what they were of.
    set_id = models.UUIDField()
    collection_id = models.UUIDField()
    alias = models.CharField(max_length=100)
    # {"route": id, "upstream": name, "url": address, "serving": fields of `Serving`}, each.
    candidate = models.JSONField()
    in_force = models.JSONField()
    fingerprint = models.CharField(max_length=64)  # of the candidate's serving
    chosen = ArrayField(models.UUIDField(), default=list)  # questions, drawn when it was started
    sample = models.PositiveIntegerField()
    seed = models.PositiveIntegerField(default=0)
    budgets = models.JSONField()  # as `judging.Budgets` has them
    probe = models.JSONField(default=list)  # cells of the needle grid; empty: no probe
    needles = models.JSONField(default=list)  # [{"cell": n, "in_force": bool, "candidate": bool}]
    conditions = models.JSONField(default=dict)  # versions of prompts, pipeline and search
    state = models.CharField(max_length=9, choices=State, default=State.WAITING)
    verdict = models.CharField(max_length=9, choices=Verdict, blank=True)
    fence = models.PositiveIntegerField(default=0)
    lease_expires_at = models.DateTimeField(null=True)
    attempt = models.PositiveSmallIntegerField(default=0)
    error_code = models.CharField(max_length=60, blank=True)
    done = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0)
    figures = models.JSONField(default=dict)  # rows as `judging.Row` has them, and the grid
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="answer_run_tenant_id"),
            models.CheckConstraint(
                condition=models.Q(state__in=["waiting", "running", "done", "failed", "cancelled"]),
                name="answer_run_state",
            ),
        ]
        indexes: ClassVar = [
            # All gates, newest first, for operations.
            models.Index(fields=["-created_at"], name="answer_run_newest"),
            # The next one to work on, of all tenants.
            models.Index(
                fields=["created_at"],
                name="answer_run_next",
                condition=models.Q(state__in=["waiting", "running"]),
            ),
        ]

    def __str__(self) -> str:
        return f"gate {self.id}"


class AnswerResult(models.Model):
    """What both made of one question. Written one by one: a killed run goes on from there."""

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    run = models.ForeignKey(
        AnswerRun, models.DO_NOTHING, related_name="results", db_constraint=False, db_index=False
    )
    question = models.ForeignKey(
        LabelledQuestion, models.DO_NOTHING, db_constraint=False, db_index=False
    )
    slices = ArrayField(models.CharField(max_length=80), default=list)  # kind/name
    # {"in_force": {metric: value}, "candidate": {…}}
    scores = models.JSONField(default=dict)
    # The answers themselves, and what they took: {side: {"text", "kind", "cited", "ms", …}}.
    answers = models.JSONField(default=dict)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "run", "question"], name="answer_result_once"
            ),
        ]
        indexes: ClassVar = [
            # Deleting a question cascades here.
            models.Index(fields=["tenant", "question"], name="answer_result_question"),
        ]

    def __str__(self) -> str:
        return f"{self.question_id} in {self.run_id}"
