"""A conversation as a file."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET

from apps.chat.errors import ExportRefused
from apps.chat.exporting.filenames import disposition
from apps.chat.exporting.kinds import EXPORTERS, Material
from apps.chat.exporting.snapshot import snapshot_of
from apps.chat.views.conversations import own_or_404
from apps.gateway.service import available_models
from apps.tenants.access import Right, TenantRequest, tenant_page
from apps.tenants.scope import tenant_scope


@require_GET
@tenant_page(Right.CHAT, scoped=False)
def export(request: TenantRequest, conversation_id: uuid.UUID, format: str) -> HttpResponse:
    """One's own conversation as Markdown, JSON or PDF; where that fails, its page says why.

    No transaction is open while the file is made.
    """
    access, exporter = request.access, EXPORTERS.get(format)
    if exporter is None:
        raise Http404
    with tenant_scope(access.tenant.id):
        document = snapshot_of(access, own_or_404(access, conversation_id))
    labels = {model.alias: model.label for model in available_models()}
    try:
        content = exporter.export(Material(document, access.tenant.name, labels))
    except ExportRefused as exc:
        messages.error(request, str(exc))
        return redirect("chat:conversation", access.tenant.slug, conversation_id)
    response = HttpResponse(content, content_type=exporter.content_type)
    response["Content-Disposition"] = disposition(
        document["title"], suffix=exporter.suffix, otherwise="conversation"
    )
    response["Cache-Control"] = "private, no-store"
    return response
