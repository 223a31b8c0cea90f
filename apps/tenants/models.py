"""Tenants, the people in them, and how they get in."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class User(AbstractUser):
    """A person; belongs to tenants through memberships."""

    email = models.EmailField("email address", unique=True)
    # Site-wide operations: figures of every tenant, text of none unless the tenant grants it.
    is_ops = models.BooleanField("operations", default=False)


class Tenant(models.Model):
    """An organisation. Every tenant-owned row carries its id."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    slug = models.SlugField(unique=True)
    name = models.CharField(max_length=200)
    time_zone = models.CharField(max_length=64, default="UTC")
    ops_may_read_text = models.BooleanField(
        default=False, help_text="Let site operations read this tenant's documents and chats."
    )
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class Role(models.TextChoices):
    """What a member may do; each role includes the ones above it."""

    MEMBER = "member", _("Member")
    CORPUS_ADMIN = "corpus_admin", _("Corpus admin")
    TENANT_MANAGER = "tenant_manager", _("Tenant manager")


class Membership(models.Model):
    """A user's place and role in a tenant."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="memberships", db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=20, choices=Role, default=Role.MEMBER)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "user"], name="membership_once"),
            models.CheckConstraint(
                condition=models.Q(role__in=Role.values), name="membership_role"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} in {self.tenant_id} as {self.role}"


class Invitation(models.Model):
    """An offer of membership to an e-mail address; only the token's hash is kept."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="invitations", db_index=False)
    email = models.EmailField()
    role = models.CharField(max_length=20, choices=Role, default=Role.MEMBER)
    token_hash = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            # One open invitation per address: inviting again replaces the token.
            models.UniqueConstraint(
                "tenant",
                Lower("email"),
                condition=models.Q(accepted_at__isnull=True),
                name="invitation_open_once",
            ),
        ]

    def __str__(self) -> str:
        return f"invitation {self.id}"

    @property
    def is_expired(self) -> bool:
        return self.expires_at <= timezone.now()


class KeyScope(models.TextChoices):
    """What a program may do with a key."""

    READ = "read", "Read collections and documents"
    MANAGE = "manage", "Read, upload and delete documents"


MODEL_NAME_MAX_CHARS = 100


class ApiKey(models.Model):
    """A credential for programs; shown once, kept as a hash, revocable at once."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="api_keys", db_index=False)
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12)
    key_hash = models.CharField(max_length=64, unique=True)
    scope = models.CharField(max_length=10, choices=KeyScope, default=KeyScope.READ)
    # The only collections that it opens; empty: all. Ids, for this room knows no collections.
    collection_ids = ArrayField(models.UUIDField(), default=list, blank=True)
    # Whether it may call models over `/v1/`, which costs money; and which, empty: all.
    may_use_models = models.BooleanField(default=False)
    model_aliases = ArrayField(
        models.CharField(max_length=MODEL_NAME_MAX_CHARS), default=list, blank=True
    )
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(scope__in=KeyScope.values), name="api_key_scope"
            ),
        ]
        indexes: ClassVar = [
            # The keys page lists a tenant's keys, newest first.
            models.Index(fields=["tenant", "-created_at"], name="api_key_by_tenant"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()


class Subject(models.TextChoices):
    """Whom a limit binds."""

    TENANT = "tenant", "The organisation"
    MEMBER = "member", "A member"
    KEY = "key", "An API key"


class Measure(models.TextChoices):
    """What a limit counts."""

    REQUESTS_PER_MINUTE = "requests_per_minute", _("Requests a minute")
    TOKENS_PER_MINUTE = "tokens_per_minute", _("Tokens a minute")
    CONCURRENT_CALLS = "concurrent_calls", _("Answers at the same time")
    TOKENS_PER_DAY = "tokens_per_day", _("Tokens a day")
    MICROS_PER_MONTH = "micros_per_month", _("Money a month")
    DOCUMENTS = "documents", _("Documents")
    STORAGE_BYTES = "storage_bytes", _("Storage")


class Limit(models.Model):
    """How much of something a tenant, a member or a key may use. All that bind a caller hold.

    Operations give a tenant its limits; its managers set tighter ones, for it, its members and
    its keys. `subject_id` empty, for members and keys: each of them.
    """

    class GivenBy(models.TextChoices):
        OPS = "ops", "Operations"
        MANAGER = "manager", "A tenant manager"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="limits", db_index=False)
    subject = models.CharField(max_length=10, choices=Subject)
    subject_id = models.CharField(max_length=40, blank=True)  # user id or key id
    measure = models.CharField(max_length=20, choices=Measure)
    amount = models.BigIntegerField()
    # Share of it at which people are warned.
    soft_percent = models.PositiveSmallIntegerField(default=80)
    given_by = models.CharField(max_length=10, choices=GivenBy)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "subject", "subject_id", "measure", "given_by"],
                name="limit_once",
            ),
            models.CheckConstraint(
                condition=models.Q(subject__in=Subject.values)
                & models.Q(measure__in=Measure.values)
                & models.Q(given_by__in=["ops", "manager"]),
                name="limit_kinds",
            ),
            models.CheckConstraint(
                condition=models.Q(amount__gte=0)
                & models.Q(soft_percent__gte=1)
                & models.Q(soft_percent__lte=100),
                name="limit_amounts",
            ),
            models.CheckConstraint(
                condition=~models.Q(subject="tenant") | models.Q(subject_id=""),
                name="limit_of_the_tenant",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.measure} of {self.subject} {self.subject_id}: {self.amount}"
