"""Labelled questions about the documentation, so that the quality pages have something to show."""

from __future__ import annotations

from pathlib import Path

from django.core.files import File

from apps.documents.models import Collection
from apps.evals.formats import read_upload
from apps.evals.importing import Plan, plan_import
from apps.evals.models import EvalRun, LabelledSet
from apps.evals.running import start_run
from apps.evals.services import import_plan
from apps.tenants.scope import tenant_scope
from ragsite.stack.demo.people import Demo

QUESTIONS = Path(__file__).with_name("questions.jsonl")
NAME = "Questions about the documentation"


def ensure_labelled_set(demo: Demo, collection: Collection) -> Plan:
    """The set with its labels where the documents have them now, and a first run of it.

    A document that changed was replaced, and its labels went with it: they are placed anew.
    """
    with QUESTIONS.open("rb") as file:
        reading = read_upload([File(file, name=QUESTIONS.name)])
    plan = plan_import(tenant=demo.tenant, collection=collection, reading=reading)
    import_plan(
        tenant=demo.tenant, collection=collection, user=demo.corpus_admin, name=NAME, plan=plan
    )
    with tenant_scope(demo.tenant.id):
        labelled_set = LabelledSet.objects.get(tenant=demo.tenant, name=NAME)
        has_run = EvalRun.objects.filter(tenant=demo.tenant, labelled_set=labelled_set).exists()
    if not has_run:
        start_run(
            tenant=demo.tenant,
            labelled_set=labelled_set,
            user=demo.corpus_admin,
            trigger=EvalRun.Trigger.MANUAL,
        )
    return plan
