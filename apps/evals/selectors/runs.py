"""What is read of runs, of the questions in them, and of alerts. Inside the tenant's scope."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Case, Count, Exists, F, OuterRef, Q, QuerySet, When
from django.utils import timezone

from apps.documents.selectors import collections_for
from apps.evals.claims import UNFINISHED
from apps.evals.configuration import changes
from apps.evals.metrics import STAGES
from apps.evals.models import Alert, EvalRun, Label, LabelledQuestion, LabelledSet, RunQuestion
from apps.retrieval.models import SearchProfile
from apps.tenants.access import Access

HISTORY_RUNS = 60  # two months of nights
_NOT_WATCHED = Q(trigger=EvalRun.Trigger.GATE) | Q(configuration__default=False)
# How long a seen alert stays on the overview, so that a slip of the hand can be undone.
SEEN_SHOWN = timedelta(hours=1)


@dataclass(frozen=True)
class RunPoint:
    """A run in a set's history."""

    id: uuid.UUID
    at: datetime
    trigger: str
    state: str
    questions: int
    sampled: bool
    watched: bool  # finished, and searched as readers' questions are: a point of the chart
    final: dict[str, float]  # empty unless it is done


@dataclass(frozen=True)
class SetStanding:
    """A labelled set: its questions, its runs, and how the newest one came out."""

    labelled_set: LabelledSet
    answerable: int
    unanswerable: int
    unlabelled: int
    newest: EvalRun | None  # finished, of all its questions or of a sample
    before: EvalRun | None  # the finished one before
    under_way: EvalRun | None
    failed: EvalRun | None  # where the last one ended in failure
    history: list[RunPoint] = field(default_factory=list)  # of any kind and state, newest first

    @property
    def can_run(self) -> bool:
        return self.answerable > 0 and self.under_way is None


def sets_for(access: Access) -> QuerySet[LabelledSet]:
    """The sets of the collections open to this person, by name."""
    rows = LabelledSet.objects.filter(
        tenant_id=access.tenant.id, collection__in=collections_for(access).order_by()
    )
    return rows.select_related("collection").order_by("name")


def get_set_for(access: Access, set_id: uuid.UUID) -> LabelledSet | None:
    """The set, if its collection is open to this person."""
    return sets_for(access).filter(id=set_id).first()


def get_run_for(access: Access, run_id: uuid.UUID) -> EvalRun | None:
    """The run with its set and collection, if that is open to this person."""
    rows = EvalRun.objects.filter(
        tenant_id=access.tenant.id, id=run_id, labelled_set__in=sets_for(access).order_by()
    )
    return rows.select_related("labelled_set__collection", "created_by").first()


def runs_of(labelled_set: LabelledSet) -> QuerySet[EvalRun]:
    """A set's runs, newest first."""
    return EvalRun.objects.filter(
        tenant_id=labelled_set.tenant_id, labelled_set=labelled_set
    ).order_by("-created_at")


def others_to_compare(run: EvalRun) -> list[EvalRun]:
    """The set's other finished runs, newest first."""
    done = runs_of(run.labelled_set).filter(state=EvalRun.State.DONE).exclude(id=run.id)
    return list(done[:HISTORY_RUNS])


def standing_of(labelled_set: LabelledSet) -> SetStanding:
    """How a set stands: what its card shows."""
    runs = runs_of(labelled_set)
    done = list(_watched(runs)[:2])
    last = runs.first()
    under_way = runs.filter(state__in=UNFINISHED).first()
    return SetStanding(
        labelled_set,
        **_question_counts(labelled_set),
        newest=done[0] if done else None,
        before=done[1] if len(done) > 1 else None,
        under_way=under_way,
        failed=last if last and last.state == EvalRun.State.FAILED else None,
        history=_history(runs),
    )


def _watched(runs: QuerySet[EvalRun]) -> QuerySet[EvalRun]:
    """Finished ones that searched as readers' questions are searched: comparable over time.

    Not those that left stages out, or tried an embedding index which is not in force.
    """
    done = runs.filter(state=EvalRun.State.DONE, figures__questions__gt=0)
    return done.exclude(_NOT_WATCHED)


def _history(runs: QuerySet[EvalRun]) -> list[RunPoint]:
    rows = runs.annotate(apart=Case(When(_NOT_WATCHED, then=True), default=False)).values_list(
        *("id", "created_at", "trigger", "state", "sample", "apart"),
        *("figures__questions", "figures__stages__final"),
    )
    return [
        RunPoint(
            id=id_,
            at=at,
            trigger=str(EvalRun.Trigger(trigger).label),
            state=state,
            questions=questions or 0,
            sampled=sample is not None,
            watched=bool(questions) and state == EvalRun.State.DONE and not apart,
            final=final or {},
        )
        for id_, at, trigger, state, sample, apart, questions, final in rows[:HISTORY_RUNS]
    ]


def _question_counts(labelled_set: LabelledSet) -> dict[str, int]:
    labels = Label.objects.filter(
        tenant_id=labelled_set.tenant_id, question_id=OuterRef("id"), grade__gt=0
    )
    questions = LabelledQuestion.objects.filter(
        tenant_id=labelled_set.tenant_id, labelled_set=labelled_set
    )
    counts = questions.annotate(labelled=Exists(labels)).aggregate(
        all=Count("id"),
        refused=Count("id", filter=Q(unanswerable=True)),
        answered=Count("id", filter=Q(unanswerable=False, labelled=True)),
    )
    return {
        "answerable": counts["answered"],
        "unanswerable": counts["refused"],
        "unlabelled": counts["all"] - counts["answered"] - counts["refused"],
    }


# Questions of a run ---------------------------------------------------------


@dataclass(frozen=True)
class WantedResults:
    """Which of a run's questions to list, and in what order."""

    metric: str = "ndcg@10"
    slice: str = ""
    outcome: str = ""  # a key of OUTCOMES


OUTCOMES = {
    "first_stage": "Never found",
    "placed_badly": "Found, placed badly",
    "found": "Found",
    "unanswerable": "Without an answer",
    "lost": "Its labels are gone",
}


def results_of(run: EvalRun, wanted: WantedResults = WantedResults()) -> QuerySet[RunQuestion]:
    """What a run found for its questions, the worst by the metric first.

    Those without an answer have no metrics; they come last, the most relevant hit first: that is
    the one nearest to being answered by mistake.
    """
    first, last = _ends(run)
    rows = RunQuestion.objects.filter(tenant_id=run.tenant_id, run=run)
    if wanted.slice:
        rows = rows.filter(question__slices__contains=[wanted.slice])
    if wanted.outcome:
        rows = rows.filter(_outcome_filter(wanted.outcome, first, last))
    worst_first = F(f"metrics__{last}__{wanted.metric}").asc(nulls_last=True)
    return rows.select_related("question").order_by(worst_first, "-relevance", "id")


def outcome_of(run: EvalRun, result: RunQuestion) -> str:
    """The key in OUTCOMES of what became of a question, as the run's figures count it."""
    if not result.metrics:
        return "unanswerable" if result.question.unanswerable else "lost"
    first, last = _ends(run)
    if result.metrics.get(last, {}).get("success@10", 0) > 0:
        return "found"
    known = result.metrics.get(first, {}).get("recall@100", 0) > 0
    return "placed_badly" if known else "first_stage"


def last_stage(run: EvalRun) -> str:
    """The stage that headlines and lists of a run are about: "final", unless it was left out."""
    return _ends(run)[1]


def _ends(run: EvalRun) -> tuple[str, str]:
    """The stage after which a passage counts as found at all, and the last one."""
    stages = run.configuration.get("stages") or STAGES
    return ("fused" if "fused" in stages else stages[0]), stages[-1]


def _outcome_filter(outcome: str, first: str, last: str) -> Q:
    found = Q(**{f"metrics__{last}__success@10__gt": 0})
    known = Q(**{f"metrics__{first}__recall@100__gt": 0})
    measured = ~Q(metrics={})
    filters = {
        "first_stage": measured & ~known & ~found,
        "placed_badly": known & ~found,
        "found": found,
        "unanswerable": Q(metrics={}, question__unanswerable=True),
        "lost": Q(metrics={}, question__unanswerable=False),
    }
    return filters[outcome]


def get_result(run: EvalRun, question_id: uuid.UUID) -> RunQuestion | None:
    """What a run found for one question."""
    return results_of(run).filter(question_id=question_id).first()


def labels_of(question: LabelledQuestion) -> list[Label]:
    """A question's labels, the highest grade first."""
    rows = Label.objects.filter(tenant_id=question.tenant_id, question=question)
    return list(rows.order_by("-grade", "id"))


# Alerts ---------------------------------------------------------------------


def alerts_of(tenant_id: uuid.UUID) -> QuerySet[Alert]:
    """A tenant's alerts, newest first."""
    rows = Alert.objects.filter(tenant_id=tenant_id).order_by("-at")
    return rows.select_related("run__labelled_set", "seen_by")


def alerts_to_show(tenant_id: uuid.UUID) -> QuerySet[Alert]:
    """Those that nobody has seen, and those seen a moment ago, to undo it."""
    recently = timezone.now() - SEEN_SHOWN
    return alerts_of(tenant_id).filter(Q(seen_at=None) | Q(seen_at__gt=recently))


def get_alert(tenant_id: uuid.UUID, alert_id: uuid.UUID) -> Alert | None:
    """One of the tenant's alerts."""
    return alerts_of(tenant_id).filter(id=alert_id).first()


def settings_of(run: EvalRun) -> dict[str, Any]:
    """The run's configuration by dotted name, in order."""
    return {name: value for name, (_, value) in changes({}, run.configuration).items()}


def earlier_limit(tenant_id: uuid.UUID) -> float | None:
    """The limit of relevance before the one in force; None where it never was another."""
    rows = SearchProfile.objects.filter(tenant_id=tenant_id)
    active = rows.filter(active=True).first()
    if active is None:
        return None
    before = rows.filter(active=False, created_at__lt=active.created_at)
    other = before.exclude(not_found_below=active.not_found_below).order_by("-created_at").first()
    limit = other.not_found_below if other else float(settings.NOT_FOUND_BELOW)
    return limit if limit != active.not_found_below else None


def question_texts(tenant_id: uuid.UUID, ids: Collection[uuid.UUID]) -> dict[uuid.UUID, str]:
    """The questions' texts, by id."""
    rows = LabelledQuestion.objects.filter(tenant_id=tenant_id, id__in=ids)
    return dict(rows.values_list("id", "text"))
