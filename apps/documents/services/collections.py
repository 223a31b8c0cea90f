"""Making and changing collections."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import IntegrityError, transaction

from apps.documents.errors import NameTaken
from apps.documents.models import Collection, CollectionReader
from apps.documents.services.common import audit
from apps.tenants.models import Membership, Tenant, User
from apps.tenants.scope import tenant_scope


def create_collection(
    *,
    tenant: Tenant,
    user: User | None,
    name: str,
    description: str = "",
    open_to_all: bool = True,
    reader_ids: Iterable[int] = (),
) -> Collection:
    """Make a collection. `reader_ids` are users; those who are no members are left out.

    Raises NameTaken.
    """
    with tenant_scope(tenant.id):
        collection = Collection(
            tenant=tenant,
            name=name.strip(),
            description=description.strip(),
            open_to_all=open_to_all,
            created_by=user,
        )
        _save_named(collection, force_insert=True)
        _set_readers(collection, reader_ids)
        audit("collection.created", collection, user)
    return collection


def update_collection(
    *,
    tenant: Tenant,
    collection: Collection,
    actor: User | None,
    name: str,
    description: str,
    open_to_all: bool,
    reader_ids: Iterable[int],
) -> Collection:
    """Change a collection's name, description and readers. Raises NameTaken."""
    with tenant_scope(tenant.id):
        collection.name = name.strip()
        collection.description = description.strip()
        collection.open_to_all = open_to_all
        _save_named(collection, update_fields=["name", "description", "open_to_all"])
        _set_readers(collection, reader_ids)
        audit("collection.changed", collection, actor)
    return collection


def _save_named(collection: Collection, **options: object) -> None:
    try:
        with transaction.atomic():
            collection.save(**options)  # type: ignore[arg-type]
    except IntegrityError as exc:
        raise NameTaken(
            f"There is a collection named “{collection.name}” already. Choose another name."
        ) from exc


def _set_readers(collection: Collection, reader_ids: Iterable[int]) -> None:
    """Replace the readers; a collection that is open to all needs none."""
    tenant_id = collection.tenant_id
    CollectionReader.objects.filter(tenant_id=tenant_id, collection=collection).delete()
    if collection.open_to_all:
        return
    members = Membership.objects.filter(tenant_id=tenant_id, user_id__in=list(reader_ids))
    CollectionReader.objects.bulk_create(
        CollectionReader(tenant_id=tenant_id, collection=collection, user_id=user_id)
        for user_id in members.values_list("user_id", flat=True)
    )
