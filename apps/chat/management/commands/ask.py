"""Ask one question from the command line; prints the answer, its citations and the hops."""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.chat.errors import ChatError
from apps.chat.pipeline import AnswerRequest, Outcome, TextWritten, answer_trace, ask
from apps.chat.services import clean_question
from apps.documents.models import Collection
from apps.gateway.errors import GatewayError, UnknownModel
from apps.gateway.service import find_model
from apps.gateway.types import Caller, Model, Source
from apps.telemetry.hops import Trace
from apps.telemetry.services import record_trace
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope


class Command(BaseCommand):
    help = "Ask a question of a tenant's documents."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("question")
        parser.add_argument("--tenant", required=True, help="the tenant's slug")
        parser.add_argument(
            "--collection",
            action="append",
            default=[],
            help="a collection's name; may be repeated. Default: all of the tenant's.",
        )
        parser.add_argument("--model", default="", help="a model's alias. Default: the first.")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        request = _request(options)
        caller = _caller(request)
        trace = answer_trace(caller, uuid.uuid4())
        outcome = Outcome()
        try:
            asyncio.run(self._answer(caller, request, trace, outcome, live=not options["json"]))
        except GatewayError as exc:
            raise CommandError(str(exc)) from exc
        finally:
            record_trace(trace)
        if options["json"]:
            self.stdout.write(json.dumps(report(outcome, trace), ensure_ascii=False, indent=2))
        else:
            self._print(outcome, trace)

    async def _answer(
        self,
        caller: Caller,
        request: AnswerRequest,
        trace: Trace,
        outcome: Outcome,
        *,
        live: bool,
    ) -> None:
        async with aclosing(ask(caller, request, trace, outcome)) as events:
            async for event in events:
                if live and isinstance(event, TextWritten):
                    self.stdout.write(event.text, ending="")
                    self.stdout.flush()

    def _print(self, outcome: Outcome, trace: Trace) -> None:
        self.stdout.write("\n")
        for notice in outcome.notices:
            self.stdout.write(f"Note: {notice.message}")
        for citation in report(outcome, trace)["citations"]:
            place = f"page {citation['page']}, characters {citation['start']} to {citation['end']}"
            self.stdout.write(
                f"[{citation['marker']}] {citation['document']}, {place}, "
                f"relevance {citation['score']:.2f}"
            )
        for hop in trace.hops:
            self.stdout.write(f"{hop.name:<10} {hop.status:<9} {hop.work_ms:>9.1f} ms")


def report(outcome: Outcome, trace: Trace) -> dict[str, Any]:
    """Answer, citations and hops as plain data."""
    return {
        "answer": outcome.text,
        "kind": outcome.kind,
        "interrupted": outcome.interrupted,
        "notices": [asdict(notice) for notice in outcome.notices],
        "citations": [
            {
                "marker": marker,
                "document": passage.document_name,
                "document_id": str(passage.document_id),
                "heading": passage.heading_path,
                "page": passage.page_first,
                "start": passage.char_start,
                "end": passage.char_end,
                "score": round(passage.relevance, 4),
            }
            for marker, passage in enumerate(outcome.passages, start=1)
            if marker in outcome.cited
        ],
        "unsupported": [
            outcome.text[s.start : s.end] for s in outcome.sentences if not s.supported
        ],
        "tokens": {
            "prompt": outcome.prompt_tokens,
            "completion": outcome.completion_tokens,
            "estimated": outcome.tokens_estimated,
        },
        "hops": [
            {
                "hop": hop.name,
                "status": hop.status,
                "wait_ms": round(hop.wait_ms, 2),
                "work_ms": round(hop.work_ms, 2),
                **({"error": hop.error_code} if hop.error_code else {}),
                "attributes": hop.attributes,
            }
            for hop in trace.hops
        ],
    }


def _request(options: dict[str, Any]) -> AnswerRequest:
    tenant = Tenant.objects.filter(slug=options["tenant"]).first()
    if tenant is None:
        known = ", ".join(Tenant.objects.values_list("slug", flat=True)[:10]) or "none yet"
        raise CommandError(f"There is no tenant {options['tenant']!r}. Tenants: {known}.")
    try:
        question = clean_question(options["question"])
        model: Model | None = find_model(options["model"])
    except ChatError as exc:
        raise CommandError(str(exc)) from exc
    except UnknownModel as exc:
        if options["model"]:
            raise CommandError(str(exc)) from exc
        model = None  # none is configured: the pipeline quotes passages instead
    return AnswerRequest(
        tenant_id=tenant.id,
        question=question,
        collection_ids=_collection_ids(tenant, options["collection"]),
        model=model,
    )


def _caller(request: AnswerRequest) -> Caller:
    """The tenant itself: whoever has the command line is bound by its limits, and no person's."""
    return Caller(
        tenant_id=request.tenant_id,
        time_zone=Tenant.objects.get(id=request.tenant_id).time_zone,
        source=Source.COMMAND,
        collection_ids=request.collection_ids,
    )


def _collection_ids(tenant: Tenant, names: list[str]) -> tuple[Any, ...]:
    with tenant_scope(tenant.id):
        found = dict(Collection.objects.filter(tenant=tenant).values_list("name", "id"))
    if missing := [name for name in names if name not in found]:
        known = ", ".join(sorted(found)) or "none yet"
        raise CommandError(f"There is no collection {missing[0]!r}. Collections: {known}.")
    return tuple(found[name] for name in names) if names else tuple(found.values())
