"""Collections, documents, their pages and chunks. All of it is under row-level security."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models

from apps.tenants.models import ApiKey, Tenant


class Collection(models.Model):
    """A body of documents with its own readers."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    name = models.CharField(max_length=200)
    description = models.TextField(blank=True)
    # Open to every member of the tenant, or only to the readers named in CollectionReader.
    open_to_all = models.BooleanField(default=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "name"], name="collection_name_once"),
            # Target of the tenant foreign keys.
            models.UniqueConstraint(fields=["tenant", "id"], name="collection_tenant_id"),
        ]

    def __str__(self) -> str:
        return self.name


class CollectionReader(models.Model):
    """A member who may chat with a collection that is not open to all."""

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    collection = models.ForeignKey(
        Collection, models.DO_NOTHING, related_name="readers", db_constraint=False, db_index=False
    )
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "collection", "user"], name="collection_reader_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} reads {self.collection_id}"


class DocumentState(models.TextChoices):
    """Where a document is on its way; ends as ready or as failed with a reason.

    A ready document is superseded when the next version of the same path has become ready.
    """

    RECEIVED = "received", "Received"
    PARSING = "parsing", "Parsing"
    INDEXING = "indexing", "Indexing"
    READY = "ready", "Ready"
    FAILED = "failed", "Failed"
    SUPERSEDED = "superseded", "Superseded"


class Batch(models.Model):
    """Documents that were sent together: what progress, throughput and time left are told of."""

    class Source(models.TextChoices):
        UPLOAD = "upload", "Upload"
        COMMAND = "command", "Command"
        API = "api", "API"
        SYNC = "sync", "Watched folder"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    collection = models.ForeignKey(
        Collection, models.DO_NOTHING, related_name="batches", db_constraint=False, db_index=False
    )
    source = models.CharField(max_length=10, choices=Source)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    # Files that its sender means to send, where that is known; and those that came to nothing new.
    expected = models.PositiveIntegerField(default=0)
    unchanged = models.PositiveIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="batch_tenant_id"),
        ]
        indexes: ClassVar = [
            # The batches of a collection, newest first.
            models.Index(fields=["tenant", "collection", "-created_at"], name="batch_page"),
        ]

    def __str__(self) -> str:
        return f"batch {self.id}"


class Document(models.Model):
    """One version of one file. What is still to be done with it is in its `Job`."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    collection = models.ForeignKey(
        Collection, models.DO_NOTHING, related_name="documents", db_constraint=False, db_index=False
    )
    # What a file is known by in its collection: its name, or its path in the folder it came from.
    # Other bytes under the same path are the next version.
    path = models.CharField(max_length=500)
    version = models.PositiveIntegerField(default=1)
    name = models.CharField(max_length=255)  # the last part of the path
    batch = models.ForeignKey(
        Batch,
        models.DO_NOTHING,
        related_name="documents",
        null=True,
        db_constraint=False,
        db_index=False,
    )
    kind = models.CharField(max_length=100, blank=True)  # MIME type told from the content
    size_bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    storage_key = models.CharField(max_length=300)
    unlocked_key = models.CharField(max_length=300, blank=True)  # decrypted copy, if it was locked
    encoding = models.CharField(max_length=40, blank=True)  # chosen by a person
    ocr = models.BooleanField(default=False)  # recognise the text of its pictures
    state = models.CharField(max_length=10, choices=DocumentState, default=DocumentState.RECEIVED)
    progress_done = models.PositiveIntegerField(default=0)  # percent while parsing, then passages
    progress_total = models.PositiveIntegerField(default=0)
    # Why it failed; while it is unfinished: what it waits for.
    error_code = models.CharField(max_length=60, blank=True)
    error_message = models.CharField(max_length=500, blank=True)
    page_count = models.PositiveIntegerField(default=0)
    chunk_count = models.PositiveIntegerField(default=0)
    # Which of its chunks are shown and searched: a tenant's documents are cut anew beside the old
    # chunks, and all of them switch in one step.
    generation = models.PositiveSmallIntegerField(default=0, db_default=0)
    language = models.CharField(max_length=8, blank=True)  # ISO 639-1, where it could be told
    tags = ArrayField(models.CharField(max_length=50), default=list)  # lower case, to search by
    uploaded_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    key_id = models.UUIDField(null=True)  # the API key that it was sent with
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    ready_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="document_tenant_id"),
            models.UniqueConstraint(
                fields=["tenant", "collection", "path", "version"], name="document_version_once"
            ),
            # The same bytes twice in a collection are one document; an old version may come back.
            models.UniqueConstraint(
                fields=["tenant", "collection", "sha256"],
                condition=~models.Q(state="superseded"),
                name="document_bytes_once",
            ),
            models.CheckConstraint(
                condition=models.Q(state__in=DocumentState.values), name="document_state"
            ),
        ]
        indexes: ClassVar = [
            # The documents page: a collection's documents, newest first.
            models.Index(fields=["tenant", "collection", "-created_at"], name="document_page"),
            # Counts of a batch.
            models.Index(fields=["tenant", "batch", "state"], name="document_batch"),
            # Searches narrowed to a tag.
            GinIndex(fields=["tags"], name="document_tags"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def readable_key(self) -> str:
        """The stored file that can be read: the decrypted copy where there is one."""
        return self.unlocked_key or self.storage_key


class Stage(models.TextChoices):
    """What is to be done next with a document; a queue of the broker each."""

    INGEST = "ingest", "Parse and chunk"
    INDEX = "index", "Index"


class Job(models.Model):
    """What is still to be done with a document: one row until it is ready or failed.

    It holds no readable text and has no policy, so that workers can choose between the tenants.
    """

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    document = models.ForeignKey(
        Document, models.DO_NOTHING, related_name="jobs", db_constraint=False, db_index=False
    )
    stage = models.CharField(max_length=6, choices=Stage)
    # Start tag of start-time fair queueing: the lowest is next, and each document moves its
    # tenant's next one up by one (see `apps.documents.turns`).
    turn = models.BigIntegerField()
    attempt = models.PositiveSmallIntegerField(default=0)  # times taken without getting further
    # Counts every taking and putting back. Whoever took the job last owns it while the lease lasts.
    fence = models.PositiveIntegerField(default=0)
    lease_expires_at = models.DateTimeField(null=True)
    not_before = models.DateTimeField(null=True)  # waiting for something outside
    since = models.DateTimeField()  # when it began to wait in this stage

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "document"], name="job_once"),
            models.CheckConstraint(condition=models.Q(stage__in=Stage.values), name="job_stage"),
        ]
        indexes: ClassVar = [
            # The next job of a stage.
            models.Index(fields=["stage", "turn", "id"], name="job_next"),
            # What is being worked on.
            models.Index(
                fields=["lease_expires_at"],
                name="job_leased",
                condition=models.Q(lease_expires_at__isnull=False),
            ),
            # A tenant's last turn.
            models.Index(fields=["tenant", "stage", "turn"], name="job_of_tenant"),
        ]

    def __str__(self) -> str:
        return f"{self.stage} {self.document_id}"


class IdempotencyKey(models.Model):
    """A request to the API that is to be carried out once, and what it was answered.

    It holds hashes, and an answer without what its document is called: no readable text, so no
    policy, and what is out of date is found across tenants.
    """

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    api_key = models.ForeignKey(ApiKey, models.CASCADE, db_index=False)
    key_hash = models.CharField(max_length=64)  # SHA-256 of what the client chose
    fingerprint = models.CharField(max_length=64)  # SHA-256 of what it asked for
    # Counts every taking: whoever took it last may answer.
    fence = models.PositiveIntegerField(default=0)
    locked_until = models.DateTimeField()  # a request that has not answered by then has died
    expires_at = models.DateTimeField()
    status = models.PositiveSmallIntegerField(null=True)  # null: under way
    answer = models.JSONField(default=dict)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "api_key", "key_hash"], name="idempotency_once"
            ),
        ]
        indexes: ClassVar = [
            # What is out of date, of all tenants.
            models.Index(fields=["expires_at"], name="idempotency_expiry"),
        ]

    def __str__(self) -> str:
        return f"idempotency key {self.id}"


class Page(models.Model):
    """The text of one page; `char_start` is its offset in the document's whole text."""

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    document = models.ForeignKey(
        Document, models.DO_NOTHING, related_name="pages", db_constraint=False, db_index=False
    )
    number = models.PositiveIntegerField()  # from 1
    text = models.TextField(blank=True)
    char_start = models.PositiveIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "document", "number"], name="page_once"),
        ]

    def __str__(self) -> str:
        return f"page {self.number} of {self.document_id}"


class Chunk(models.Model):
    """A passage: `text` is the document's text from `char_start` to `char_end`, as it stands."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    document = models.ForeignKey(
        Document, models.DO_NOTHING, related_name="chunks", db_constraint=False, db_index=False
    )
    generation = models.PositiveSmallIntegerField(
        default=0, db_default=0
    )  # see `Document.generation`
    ordinal = models.PositiveIntegerField()  # from 0
    text = models.TextField()
    heading_path = models.CharField(max_length=500, blank=True)  # "Guide › Install › Linux"
    char_start = models.PositiveIntegerField()
    char_end = models.PositiveIntegerField()
    page_first = models.PositiveIntegerField()
    page_last = models.PositiveIntegerField()
    token_count = (
        models.PositiveIntegerField()
    )  # of text with heading path, in the chunker's tokenizer

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="chunk_tenant_id"),
            models.UniqueConstraint(
                fields=["tenant", "document", "generation", "ordinal"], name="chunk_once"
            ),
            models.CheckConstraint(
                condition=models.Q(char_end__gt=models.F("char_start")), name="chunk_not_empty"
            ),
        ]

    def __str__(self) -> str:
        return f"chunk {self.ordinal} of {self.document_id}"


class Chunking(models.Model):
    """How a tenant's documents are cut into chunks; without one in force, as the settings say.

    Chunks of several generations may stand side by side while passages are cut anew; new documents
    are cut as the one in force says. Figures only: no policy.
    """

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    generation = models.PositiveSmallIntegerField()
    max_tokens = models.PositiveIntegerField()
    overlap_tokens = models.PositiveIntegerField()
    in_force = models.BooleanField(default=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "generation"], name="chunking_once"),
            models.UniqueConstraint(
                fields=["tenant"], condition=models.Q(in_force=True), name="chunking_in_force"
            ),
            models.CheckConstraint(
                condition=models.Q(overlap_tokens__lt=models.F("max_tokens")),
                name="chunking_moves_on",
            ),
        ]

    def __str__(self) -> str:
        return f"generation {self.generation}: {self.max_tokens} tokens"


class CollectionVersion(models.Model):
    """How often what may be found in a collection has changed: the sum of its rows.

    Triggers on the documents add a row in the transaction of the change, and take up in it those
    that nobody else holds: workers that finish documents at once do not wait for each other.
    Figures only: no policy.
    """

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False, db_constraint=False)
    collection_id = models.UUIDField()
    raised = models.BigIntegerField()

    class Meta:
        indexes: ClassVar = [
            # Added up for every question, without reading the table.
            models.Index(
                fields=["tenant", "collection_id"],
                include=["raised"],
                name="collection_version_sum",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.collection_id} raised by {self.raised}"


class DocumentUse(models.Model):
    """How many documents and bytes a tenant, a member or a key has.

    Triggers on the documents keep it, in the transaction that adds or deletes them: whoever adds
    holds the rows until its end. Figures only: no policy.
    """

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    subject = models.CharField(max_length=10)  # `apps.tenants.models.Subject`
    subject_id = models.CharField(max_length=40, blank=True)  # "" for the tenant itself
    documents = models.BigIntegerField(default=0)  # each once, in all its versions
    bytes = models.BigIntegerField(default=0)  # of all versions, as they were sent

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "subject", "subject_id"], name="document_use_once"
            ),
            models.CheckConstraint(
                condition=models.Q(documents__gte=0) & models.Q(bytes__gte=0),
                name="document_use_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.documents} documents of {self.subject} {self.subject_id}"


class Source(models.Model):
    """A folder, or a prefix of a bucket, that a collection is kept in step with."""

    class Kind(models.TextChoices):
        FOLDER = "folder", "Folder"
        S3 = "s3", "S3 prefix"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    collection = models.ForeignKey(
        Collection, models.DO_NOTHING, related_name="sources", db_constraint=False, db_index=False
    )
    kind = models.CharField(max_length=6, choices=Kind)
    location = models.CharField(max_length=500)  # /srv/handbooks, or bucket/prefix/
    every_minutes = models.PositiveIntegerField()
    enabled = models.BooleanField(default=True)
    removing = models.BooleanField(default=False)  # goes once its documents have gone
    # So many documents may go although that is most of them: a person has confirmed it.
    removals_allowed = models.PositiveIntegerField(default=0)
    last_started_at = models.DateTimeField(null=True)
    last_finished_at = models.DateTimeField(null=True)
    outcome = models.JSONField(default=dict)  # of the last run (apps/documents/syncing.py)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="source_tenant_id"),
            models.UniqueConstraint(
                fields=["tenant", "collection", "kind", "location"], name="source_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} source {self.id}"


class SourceFile(models.Model):
    """A file of a source as it was when last looked at, and the document it came to.

    It is what tells a change without reading the file, and which documents a source has brought:
    only those go when their file goes.
    """

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    source = models.ForeignKey(
        Source, models.DO_NOTHING, related_name="files", db_constraint=False, db_index=False
    )
    path = models.CharField(max_length=500)
    size_bytes = models.BigIntegerField()
    stamp = models.CharField(max_length=200)  # time of change in ns, or the store's etag
    sha256 = models.CharField(max_length=64, blank=True)
    # None: it was refused, is the same as another, or its document was deleted by a person.
    document = models.ForeignKey(
        Document, models.DO_NOTHING, related_name="+", null=True, db_constraint=False,
        db_index=False,
    )  # fmt: skip
    code = models.CharField(max_length=60, blank=True)  # why it came to nothing
    message = models.CharField(max_length=500, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "source", "path"], name="source_file_once"),
            # Also finds the file of a document that is deleted.
            models.UniqueConstraint(fields=["tenant", "document"], name="source_file_document"),
        ]

    def __str__(self) -> str:
        return f"file {self.id} of {self.source_id}"


class SourceRun(models.Model):
    """When a source is next in turn, and who is at it.

    Like `Job`, it holds no readable text and has no policy: the clock looks over all tenants.
    """

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    source = models.ForeignKey(
        Source, models.DO_NOTHING, related_name="runs", db_constraint=False, db_index=False
    )
    due_at = models.DateTimeField(null=True)  # None while it is paused
    lease_expires_at = models.DateTimeField(null=True)
    fence = models.PositiveIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "source"], name="source_run_once"),
        ]
        indexes: ClassVar = [
            # The source that has been due for longest.
            models.Index(fields=["due_at"], name="source_run_due"),
        ]

    def __str__(self) -> str:
        return f"run of {self.source_id}"
