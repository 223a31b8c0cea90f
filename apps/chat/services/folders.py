"""One's own folders of conversations."""

from __future__ import annotations

import uuid

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from apps.chat.errors import NameTaken, UnknownFolder
from apps.chat.models import Conversation, Folder
from apps.chat.selectors.listing import get_folder
from apps.chat.services.conversations import one_line, own_conversation, tell_listed
from apps.tenants.access import Access
from apps.tenants.scope import tenant_scope

NAME_CHARS = 60


def create_folder(*, access: Access, name: str) -> Folder:
    """A new, empty folder. Raises NameTaken, also for a name without letters."""
    with tenant_scope(access.tenant.id):
        folder = Folder(tenant=access.tenant, user=access.user)
        _name(folder, name)
        tell_listed(access, None)
        return folder


def rename_folder(*, access: Access, folder_id: uuid.UUID, name: str) -> None:
    """Give one's own folder another name. Raises UnknownFolder, NameTaken."""
    with tenant_scope(access.tenant.id):
        _name(own_folder(access, folder_id), name)
        tell_listed(access, None)


def delete_folder(*, access: Access, folder_id: uuid.UUID) -> None:
    """Remove one's own folder; its conversations stay, in no folder. Raises UnknownFolder."""
    with tenant_scope(access.tenant.id):
        folder = own_folder(access, folder_id)
        # The database empties it too; deleted conversations that may come back included.
        Conversation.objects.filter(tenant=access.tenant, folder=folder).update(folder=None)
        folder.delete()
        tell_listed(access, None)


def move_conversation(
    *, access: Access, conversation_id: uuid.UUID, folder_id: uuid.UUID | None
) -> None:
    """Put one's own conversation into one's own folder, or into none."""
    with tenant_scope(access.tenant.id):
        conversation = own_conversation(access, conversation_id)
        conversation.folder = own_folder(access, folder_id) if folder_id else None
        conversation.save(update_fields=["folder"])
        tell_listed(access, conversation.id)


def own_folder(access: Access, folder_id: uuid.UUID) -> Folder:
    """One's own folder; raises UnknownFolder."""
    folder = get_folder(access, folder_id)
    if folder is None:
        raise UnknownFolder(_("That folder is no longer there. Reload the page."))
    return folder


def _name(folder: Folder, name: str) -> None:
    name = one_line(name, NAME_CHARS)
    if not name:
        raise NameTaken(_("Give the folder a name first."))
    folder.name = name
    try:
        with transaction.atomic():
            folder.save()
    except IntegrityError as exc:
        raise NameTaken(
            _("You have a folder called “%(name)s” already. Choose another name.") % {"name": name}
        ) from exc
