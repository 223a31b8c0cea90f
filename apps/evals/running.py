"""Evaluation runs: started by a person, the clock or a command, worked on question by question.

waiting → running → done, failed or cancelled. What was found for a question is written with the
count of those done, in one transaction, so a killed run goes on from there.

A degraded search (embedder or reranker down) would be measured as a worse one. The run pauses
instead and asks that question again; where that does not help, the question counts as degraded,
and a run with more than a few of those, or half of its questions, fails with the notice's code.
Runs with any are not compared by the alerts.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from django.db.models.functions import Now

from apps.evals import alerts, claims
from apps.evals.asking import Plan, ask
from apps.evals.claims import ATTEMPTS_MAX, UNFINISHED, RunClaim
from apps.evals.configuration import describe, options_of, options_through
from apps.evals.errors import NothingToMeasure
from apps.evals.figures import figures_of
from apps.evals.models import EvalRun, LabelledQuestion, LabelledSet, RunQuestion
from apps.evals.questions import Asked, chosen_ids, read_questions
from apps.retrieval.models import EmbeddingIndex
from apps.retrieval.options import SearchOptions, options_for
from apps.retrieval.selectors import active_index
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope
from worker.enqueue import wake

logger = logging.getLogger(__name__)

RUN_NEXT = "evals.run_next"
SLICE_S = 15.0  # of one worker's thread, then others' messages have their turn
PAUSE_S = 10.0  # while a model server does not answer
DEGRADED_MAX = 3  # questions
_READ_AT_ONCE = 20


def start_run(
    *,
    tenant: Tenant,
    labelled_set: LabelledSet,
    user: User | None = None,
    trigger: str,
    options: SearchOptions | None = None,
    sample: int | None = None,
    seed: int = 0,
    index: EmbeddingIndex | None = None,
    stages: Sequence[str] | None = None,
    held: bool = False,
) -> EvalRun:
    """A run of the set, for a worker to take up; `held`: for `run_here` in this process.

    Without `options` and `index`, the tenant's questions are searched as it is now. `sample`
    questions are drawn by `seed`; None: all. `stages` limit what is measured, and the work to
    what they need. Raises NothingToMeasure.
    """
    is_default = options is None and index is None and stages is None
    with tenant_scope(tenant.id):
        total = len(chosen_ids(labelled_set, sample=sample, seed=seed))
        if not total:
            raise NothingToMeasure(
                "The set has no question that can be measured. Mark passages that answer its "
                "questions, or say that a question has no answer in the collection."
            )
        chosen = options or options_for(tenant.id)
        run = EvalRun(
            tenant=tenant,
            labelled_set=labelled_set,
            trigger=trigger,
            created_by=user,
            sample=sample,
            seed=seed,
            total=total,
            configuration=describe(
                labelled_set=labelled_set,
                options=options_through(chosen, stages) if stages else chosen,
                index=index or active_index(tenant.id),
                stages=stages,
                is_default=is_default,
            ),
        )
        if held:
            run.state, run.fence, run.attempt = EvalRun.State.RUNNING, 1, 1
        run.save(force_insert=True)
        if held:
            mine = EvalRun.objects.filter(id=run.id)
            mine.update(lease_expires_at=claims.lease_end(), started_at=Now())
        else:
            wake(RUN_NEXT)
    return run


def cancel_run(*, tenant: Tenant, run_id: uuid.UUID) -> bool:
    """Stop a run, waiting or under way; what it found so far stays. False: it has ended."""
    unfinished = EvalRun.objects.filter(tenant=tenant, id=run_id, state__in=UNFINISHED)
    stopped = unfinished.update(
        state=EvalRun.State.CANCELLED, finished_at=Now(), lease_expires_at=None
    )
    return stopped == 1


def run_next() -> None:
    """Work on the next run for a slice of time, and have it gone on with."""
    claim = claims.take()
    if claim is None:
        return
    work(claim, until=time.monotonic() + SLICE_S)
    if claims.is_due():
        wake(RUN_NEXT)


def run_here(
    run: EvalRun, *, on_progress: Callable[[int, int], None] = lambda done, total: None
) -> EvalRun:
    """See a run through to its end in this process (one made with `held`), or follow it there.

    `on_progress` is told how many questions are done, and of how many.
    """
    claim: RunClaim | None = RunClaim(run.id, run.tenant_id, run.fence, run.attempt)
    while claim is not None or run.state in UNFINISHED:
        if claim is not None:
            work(claim, on_done=lambda: on_progress(*_progress(run)))
        run.refresh_from_db()
        if run.state in UNFINISHED:  # it pauses, or a worker has it
            time.sleep(PAUSE_S / 10)
            claim = claims.take(run.id)
            run.refresh_from_db()
        else:
            claim = None
    return run


def _progress(run: EvalRun) -> tuple[int, int]:
    row = EvalRun.objects.filter(tenant_id=run.tenant_id, id=run.id)
    done, total = row.values_list("done", "total").get()
    return done, total


def work(
    claim: RunClaim,
    *,
    until: float | None = None,
    on_done: Callable[[], None] = lambda: None,
) -> None:
    """Ask what is left, until it is done, somebody cancels, or `until` (monotonic) has come."""
    job = _read_job(claim)
    if job is None:
        return None
    got_further = False
    for asked in _questions(claim.tenant_id, job.left):
        if until is not None and time.monotonic() > until and got_further:
            return claims.give_back(claim, got_further=True)
        result = ask(job.plan, asked)
        if result.notices and claim.attempt < ATTEMPTS_MAX and not job.notices:
            logger.warning("run %s pauses: %s", claim.run_id, ", ".join(result.notices))
            return claims.give_back(claim, pause_s=PAUSE_S, got_further=got_further)
        if not _write(claim, result, job):
            return None
        job.notices += result.notices[:1]
        if len(job.notices) > min(DEGRADED_MAX, job.total / 2):
            return claims.fail(claim, job.notices[-1])
        got_further = True
        on_done()
    return _finish(claim)


@dataclass
class _Job:
    """What is left of a run."""

    plan: Plan
    labelled_set_id: uuid.UUID
    left: list[uuid.UUID]
    total: int
    notices: list[str]  # one a question that was degraded


def _read_job(claim: RunClaim) -> _Job | None:
    """None: the run, its set or its index is gone."""
    with tenant_scope(claim.tenant_id):
        run = claim.held().select_related("labelled_set").first()
        if run is None:
            return None
        described = run.configuration["index"]
        index_id = described["id"] if described else None
        indexes = EmbeddingIndex.objects.filter(tenant_id=claim.tenant_id)
        index = indexes.filter(id=index_id).first() if index_id else None
        if index_id is not None and index is None:
            claims.fail(claim, "index_gone")
            return None
        results = RunQuestion.objects.filter(tenant_id=claim.tenant_id, run_id=run.id)
        degraded = results.exclude(notices=[])
        done = set(results.values_list("question_id", flat=True))
        chosen = chosen_ids(run.labelled_set, sample=run.sample, seed=run.seed)
        return _Job(
            plan=Plan(
                run_id=run.id,
                tenant_id=run.tenant_id,
                collection_id=run.labelled_set.collection_id,
                options=options_of(run.configuration),
                index=index,
                stages=run.configuration["stages"],
                limit=run.configuration["limit"],
            ),
            labelled_set_id=run.labelled_set_id,
            left=[each for each in chosen if each not in done],
            total=run.total,
            notices=[codes[0] for codes in degraded.values_list("notices", flat=True)],
        )


def _questions(tenant_id: uuid.UUID, ids: Sequence[uuid.UUID]) -> Iterator[Asked]:
    for start in range(0, len(ids), _READ_AT_ONCE):
        with tenant_scope(tenant_id):
            asked = read_questions(tenant_id, ids[start : start + _READ_AT_ONCE])
        yield from asked


def _write(claim: RunClaim, result: RunQuestion, job: _Job) -> bool:
    """Whether the run is still ours. Locks go set, run, question, as deletions do."""
    with tenant_scope(claim.tenant_id):
        labelled_set = LabelledSet.objects.filter(id=job.labelled_set_id)
        bool(labelled_set.select_for_update(no_key=True))
        if not claims.note_done(claim):
            return False
        question = LabelledQuestion.objects.filter(tenant_id=claim.tenant_id, id=result.question_id)
        if question.select_for_update(no_key=True).first() is not None:
            RunQuestion.objects.bulk_create([result], ignore_conflicts=True)
    return True


def _finish(claim: RunClaim) -> None:
    with tenant_scope(claim.tenant_id):
        run = claim.held().first()
        if run is None:
            return
        figures = figures_of(run)
        ended = claim.held().update(
            state=EvalRun.State.DONE,
            figures=figures,
            finished_at=Now(),
            lease_expires_at=None,
        )
        if ended:
            run.refresh_from_db()
            alerts.check_run(run)
