"""Trying a question against one document: what search finds, stage by stage."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from apps.documents.models import DocumentState
from apps.documents.selectors import get_document_for
from apps.retrieval.options import SearchFilter, options_for
from apps.retrieval.pipeline import retrieve
from apps.telemetry.hops import Trace
from apps.telemetry.services import account_for
from apps.tenants.access import Right, TenantRequest, tenant_page
from apps.tenants.scope import tenant_scope

PASSAGES_SHOWN = 6


@require_POST  # a question does not belong in an address, nor in a log of addresses
@tenant_page(Right.READ, scoped=False)
def try_question(
    request: TenantRequest, collection_id: uuid.UUID, document_id: uuid.UUID
) -> HttpResponse:
    """The passages of the document that suit the question, with each stage's score."""
    tenant_id = request.access.tenant.id
    with tenant_scope(tenant_id):
        document = get_document_for(request.access, document_id)
    if document is None or document.collection_id != collection_id:
        raise Http404
    question = request.POST.get("question", "").strip()
    context: dict[str, Any] = {"document": document, "question": question}
    if document.state == DocumentState.READY and question:
        # Out of the scope: the models may be slow.
        # Measured for this page, and not stored.
        trace = Trace(
            tenant_id,
            "answer",
            source="evaluation",
            user_id=request.access.user.id,
            collection_ids=(collection_id,),
        )
        options = options_for(tenant_id)
        context["found"] = found = retrieve(
            tenant_id=tenant_id,
            question=question,
            collection_ids=[collection_id],
            narrowed=SearchFilter(document_ids=(document_id,)),
            trace=trace,
            limit=PASSAGES_SHOWN,
            options=options,
        )
        account_for(trace)
        context["hops"] = trace.hops
        best = max((each.relevance for each in found.passages), default=0.0)
        context["is_doubtful"] = best < options.not_found_below
    return render(request, "retrieval/_passages.html", context)
