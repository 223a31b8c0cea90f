"""One's own folders."""

from __future__ import annotations

import uuid

from django.http import HttpResponse, HttpResponseBase
from django.views.decorators.http import require_POST

from apps.chat import services
from apps.chat.errors import NameTaken, UnknownFolder
from apps.chat.views.conversations import done, missing_as_404, refused
from apps.tenants.access import Right, TenantRequest, tenant_page


@require_POST
@tenant_page(Right.CHAT)
def create(request: TenantRequest) -> HttpResponseBase:
    """Make a folder; answers its id."""
    try:
        folder = services.create_folder(access=request.access, name=request.POST.get("name", ""))
    except NameTaken as exc:
        return refused(exc)
    if request.htmx:
        return HttpResponse(str(folder.id), content_type="text/plain; charset=utf-8")
    return done(request)


@require_POST
@tenant_page(Right.CHAT)
def rename(request: TenantRequest, folder_id: uuid.UUID) -> HttpResponseBase:
    """Give a folder another name."""
    try:
        with missing_as_404(UnknownFolder):
            services.rename_folder(
                access=request.access, folder_id=folder_id, name=request.POST.get("name", "")
            )
    except NameTaken as exc:
        return refused(exc)
    return done(request)


@require_POST
@tenant_page(Right.CHAT)
def delete(request: TenantRequest, folder_id: uuid.UUID) -> HttpResponseBase:
    """Remove a folder; its conversations stay."""
    with missing_as_404(UnknownFolder):
        services.delete_folder(access=request.access, folder_id=folder_id)
    return done(request)
