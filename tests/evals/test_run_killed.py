"""Runs in a real worker that is killed, and the command beside it, through the whole stack."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.running_stack import Stack, a_stack, eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

QUESTIONS = 40
SETTINGS = {
    "JOB_LEASE_S": "3",
    "OPENAI_URL": "http://127.0.0.1:9/v1",  # nobody asks anything
}
ANIMALS = ("otter", "heron", "badger", "lynx", "beaver", "falcon", "marten", "stoat")
PLACES = ("harbour", "meadow", "quarry", "orchard", "viaduct")
_START = """
from apps.evals.models import EvalRun, LabelledSet
from apps.evals.running import start_run
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
tenant = Tenant.objects.get(slug="evaluation")
with tenant_scope(tenant.id):
    labelled_set = LabelledSet.objects.get(name="{name}")
run = start_run(tenant=tenant, labelled_set=labelled_set, trigger=EvalRun.Trigger.MANUAL)
print(run.id)
"""


@pytest.fixture(scope="module")
def small_stack() -> Iterator[Stack]:
    with a_stack(people=False, **SETTINGS) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "animals"
    (made / "qrels").mkdir(parents=True)
    pairs = [(animal, place) for animal in ANIMALS for place in PLACES]
    corpus = [
        {"_id": f"{animal}/{place}", "text": f"The {animal} of the {place} is fed at noon."}
        for animal, place in pairs
    ]
    queries = [
        {"_id": f"q-{animal}-{place}", "text": f"When is the {place}'s {animal} fed?"}
        for animal, place in pairs
    ]
    qrels = [f"q-{animal}-{place}\t{animal}/{place}\t1" for animal, place in pairs]
    assert len(pairs) == QUESTIONS
    for name, rows in (("corpus", corpus), ("queries", queries)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (made / f"{name}.jsonl").write_text(text)
    lines = "\n".join(["query-id\tcorpus-id\tscore", *qrels])
    (made / "qrels" / "test.tsv").write_text(lines + "\n")
    return made


def run_row(stack: Stack, run_id: uuid.UUID) -> tuple[str, int]:
    [(state, done)] = stack.rows("SELECT state, done FROM evals_evalrun WHERE id = %s", run_id)
    return str(state), int(done)


def results(stack: Stack, run_id: uuid.UUID) -> dict[uuid.UUID, Any]:
    rows = stack.rows(
        "SELECT question_id, metrics FROM evals_runquestion WHERE run_id = %s", run_id
    )
    assert len(rows) == len({row[0] for row in rows})
    return dict(rows)


def test_a_worker_killed_in_a_run_costs_nothing_but_time(small_stack: Stack, folder: Path) -> None:
    report = json.loads(
        small_stack.manage("evaluate", str(folder), "--json", "--min=ndcg@10=.9", timeout_s=300)
    )
    assert (report["questions"], report["corpus"]["sent"]) == (QUESTIONS, QUESTIONS)
    said = small_stack.manage("shell", "--verbosity=0", "--command", _START.format(name="animals"))
    run_id = uuid.UUID(said.split()[-1])
    eventually(lambda: run_row(small_stack, run_id)[1] >= 5, within_s=60, what="five questions")
    small_stack.kill_with_children("worker")
    killed_at = run_row(small_stack, run_id)
    assert killed_at[0] == "running"
    assert killed_at[1] < QUESTIONS, "the kill came too late to try anything"
    eventually(lambda: run_row(small_stack, run_id)[0] == "done", within_s=180, what="the run")
    assert run_row(small_stack, run_id)[1] == QUESTIONS
    calm = results(small_stack, uuid.UUID(report["run"]))
    assert results(small_stack, run_id) == calm
