"""Working on a gate, question by question; what it comes to, and what follows.

Each pair of answers is written with the count of those done, in one transaction, so a killed gate
goes on from there. An answer that lacked a part (search degraded, no server) is asked again after
a pause; where that does not help, the gate fails and approves nothing.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models.functions import Now

from apps.evals.answering import claims
from apps.evals.answering.asking import SIDES, Answered, Degraded, ask_both, probe_side
from apps.evals.answering.claims import AnswerClaim
from apps.evals.answering.judging import (
    NEEDLE,
    NEEDLE_METRIC,
    Pair,
    Row,
    judge,
    outcome,
    read_budgets,
)
from apps.evals.answering.needles import Cell, cells_read
from apps.evals.answering.slicing import slices_of
from apps.evals.answering.starting import ANSWER_NEXT, cells_of
from apps.evals.claims import ATTEMPTS_MAX
from apps.evals.models import AnswerResult, AnswerRun, LabelledQuestion
from apps.evals.questions import read_questions
from apps.gateway.approvals import approve_passed, is_approved
from apps.gateway.calling.serving import MODEL_FIELDS, read_serving, serving_of
from apps.gateway.errors import BudgetExceeded, GatewayError, RateLimited, ServingChanged
from apps.gateway.models import GatewayRoute
from apps.gateway.rehearsing import rehearsed
from apps.gateway.types import Caller, Model, Source
from apps.inference.errors import InferenceError
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from worker.enqueue import wake

logger = logging.getLogger(__name__)

SLICE_S = 15.0
PAUSE_S = 10.0


def answer_next() -> None:
    """Work on the next gate for a slice of time, and have it gone on with."""
    claim = claims.take()
    if claim is None:
        return
    work(claim, until=time.monotonic() + SLICE_S)
    if claims.is_due():
        wake(ANSWER_NEXT)


def work_here(
    run: AnswerRun, *, on_progress: Callable[[int, int], None] = lambda done, total: None
) -> AnswerRun:
    """See a gate through to its end in this process, or follow it where a worker has it."""
    while run.state in claims.UNFINISHED:
        claim = claims.take(run.id)
        if claim is not None:
            work(claim, until=time.monotonic() + 1.0)
        else:
            time.sleep(PAUSE_S / 20)
        run.refresh_from_db()
        on_progress(run.done, run.total)
    return run


def stop_gate(run_id: uuid.UUID) -> bool:
    """Stop a gate, waiting or under way; what was measured stays. False: it has ended."""
    unfinished = AnswerRun.objects.filter(id=run_id, state__in=claims.UNFINISHED)
    stopped = unfinished.update(
        state=AnswerRun.State.CANCELLED, finished_at=Now(), lease_expires_at=None
    )
    return stopped == 1


def work(claim: AnswerClaim, *, until: float) -> None:
    """Do what is left, until it is done, somebody stops it, or `until` (monotonic) has come."""
    run = claim.held().first()
    if run is None:
        return None
    models = _models(run)
    if isinstance(models, str):
        return claims.fail(claim, models)
    job = _Job(claim, run, models, _caller(run))
    got_further = False
    for step in job.steps():
        if time.monotonic() > until and got_further:
            return claims.give_back(claim, got_further=True)
        if not claims.renew(claim):
            return None
        try:
            if not step():
                return None
        except BudgetExceeded as exc:
            return claims.fail(claim, exc.code)
        except RateLimited as exc:
            return claims.give_back(claim, pause_s=exc.retry_after_s, got_further=True)
        except (Degraded, GatewayError, InferenceError) as exc:
            return _pause(claim, exc.code, got_further)
        got_further = True
    return _finish(claim, run)


def _pause(claim: AnswerClaim, code: str, got_further: bool) -> None:
    # The code only: an upstream's message may quote the prompt.
    logger.warning("gate %s pauses: %s", claim.run_id, code)
    if claim.attempt >= ATTEMPTS_MAX and not got_further:
        claims.fail(claim, code)
    else:
        claims.give_back(claim, pause_s=PAUSE_S, got_further=got_further)


@dataclass(frozen=True)
class _Job:
    claim: AnswerClaim
    run: AnswerRun
    models: dict[str, Model]
    caller: Caller

    def steps(self) -> list[Callable[[], bool]]:
        """What is left; each says whether the gate is still ours."""
        with tenant_scope(self.run.tenant_id):
            results = AnswerResult.objects.filter(tenant_id=self.run.tenant_id, run=self.run)
            done = set(results.values_list("question_id", flat=True))
        left: list[Callable[[], bool]] = [
            _Question(self, number, question_id)
            for number, question_id in enumerate(self.run.chosen)
            if question_id not in done
        ]
        probed = {each["cell"] for each in self.run.needles}
        left += [
            _Probe(self, number, cell)
            for number, cell in enumerate(cells_of(self.run))
            if number not in probed
        ]
        return left


@dataclass(frozen=True)
class _Question:
    job: _Job
    number: int
    question_id: uuid.UUID

    def __call__(self) -> bool:
        tenant_id = self.job.run.tenant_id
        with tenant_scope(tenant_id):
            rows = LabelledQuestion.objects.filter(tenant_id=tenant_id, id=self.question_id)
            row, found = rows.first(), read_questions(tenant_id, [self.question_id])
        asked = found[0] if found else None
        if row is None or asked is None or not (asked.is_answerable or asked.unanswerable):
            return True  # deleted or relabelled meanwhile: not in the figures
        both = ask_both(
            self.job.caller,
            self.job.models,
            asked,
            row.reference_answer,
            candidate_first=self.number % 2 == 1,  # neither side always finds a warm prompt
        )
        places = sum(label.grade > 0 for label in asked.labels)
        slices = slices_of(
            text=row.text, own=row.slices, labels=places, unanswerable=row.unanswerable
        )
        return _write(self.job.claim, row.id, slices, both)


@dataclass(frozen=True)
class _Probe:
    job: _Job
    number: int
    cell: Cell

    def __call__(self) -> bool:
        sides = SIDES if self.cell.judged else ("candidate",)
        found: dict[str, Any] = {"cell": self.number}
        for side in sides:
            found[side] = probe_side(
                self.job.caller, self.job.models[side], self.cell, self.job.run.seed
            )
        self.job.run.needles.append(found)
        return claims.note_done(self.job.claim, needles=self.job.run.needles)


def _write(
    claim: AnswerClaim,
    question_id: uuid.UUID,
    slices: Sequence[str],
    both: dict[str, Answered],
) -> bool:
    with tenant_scope(claim.tenant_id):
        if not claims.note_done(claim):
            return False
        question = LabelledQuestion.objects.filter(tenant_id=claim.tenant_id, id=question_id)
        if question.select_for_update(no_key=True).first() is None:
            return True
        result = AnswerResult(
            tenant_id=claim.tenant_id,
            run_id=claim.run_id,
            question_id=question_id,
            slices=list(slices),
            scores={side: each.scores for side, each in both.items()},
            answers={side: each.kept for side, each in both.items()},
        )
        AnswerResult.objects.bulk_create([result], ignore_conflicts=True)
    return True


def _models(run: AnswerRun) -> dict[str, Model] | str:
    """Both sides as they were when the gate was started; else the code of what has changed."""
    found = {}
    for side in SIDES:
        told = getattr(run, side)
        routes = GatewayRoute.objects.filter(id=told["route"], model__alias=run.alias)
        route = routes.select_related("model", "upstream").first()
        if route is None or not _is_as_told(route, told):
            return f"{side}_changed"
        try:
            found[side] = rehearsed(route, read_serving(told["serving"]))
        except ValidationError:
            return f"{side}_unusable"
    if not is_approved(run.alias, read_serving(run.in_force["serving"])):
        return "in_force_changed"
    return found


def _is_as_told(route: GatewayRoute, told: dict[str, Any]) -> bool:
    wanted = read_serving(told["serving"])
    rehearsing = {name: getattr(wanted, name) for name in MODEL_FIELDS}
    return serving_of(route).with_changes(rehearsing) == wanted and (
        route.upstream.name,
        route.upstream.url,
    ) == (told["upstream"], told["url"])


def _caller(run: AnswerRun) -> Caller:
    """The tenant itself, under its limits."""
    tenant = Tenant.objects.get(id=run.tenant_id)
    return Caller(
        tenant_id=run.tenant_id,
        time_zone=tenant.time_zone,
        source=Source.EVALUATION,
        collection_ids=(run.collection_id,),
    )


def _finish(claim: AnswerClaim, run: AnswerRun) -> None:
    """Figures, verdict and, where it passed, the approval: together or not at all."""
    if isinstance(changed := _models(run), str):
        return claims.fail(claim, changed)
    with tenant_scope(run.tenant_id):
        results = list(AnswerResult.objects.filter(tenant_id=run.tenant_id, run=run))
    rows = judge(_pairs(run, results), read_budgets(run.budgets), seed=run.seed)
    verdict: str = outcome(rows) if results else "undecided"
    figures = _figures(run, rows, results)
    with transaction.atomic():
        ended = claim.held().update(
            state=AnswerRun.State.DONE,
            verdict=verdict,
            figures=figures,
            finished_at=Now(),
            lease_expires_at=None,
        )
        if ended and verdict == AnswerRun.Verdict.PASSED and not _approve(run):
            AnswerRun.objects.filter(id=run.id).update(verdict=AnswerRun.Verdict.OUTDATED)
    return None


def _approve(run: AnswerRun) -> bool:
    try:
        with transaction.atomic():
            approve_passed(
                alias=run.alias,
                serving=read_serving(run.candidate["serving"]),
                baseline=read_serving(run.in_force["serving"]),
                gate_id=run.id,
                user=run.created_by,
            )
    except ServingChanged:
        return False
    return True


def _pairs(run: AnswerRun, results: Sequence[AnswerResult]) -> list[Pair]:
    pairs = [
        Pair(tuple(each.slices), each.scores["in_force"], each.scores["candidate"])
        for each in results
    ]
    cells = cells_of(run)
    pairs += [
        Pair(
            (NEEDLE,),
            {NEEDLE_METRIC: float(each["in_force"])},
            {NEEDLE_METRIC: float(each["candidate"])},
        )
        for each in run.needles
        if cells[each["cell"]].judged
    ]
    return pairs


def _figures(
    run: AnswerRun, rows: Sequence[Row], results: Sequence[AnswerResult]
) -> dict[str, Any]:
    return {
        "rows": [asdict(row) | {"blocks": row.blocks} for row in rows],
        "comparisons": sum(bool(row.verdict) for row in rows),
        "questions": len(results),
        "left_out": len(run.chosen) - len(results),
        "needles": cells_read(cells_of(run), run.needles),
        "cost_micros": sum(each.answers[side]["cost_micros"] for each in results for side in SIDES),
    }
