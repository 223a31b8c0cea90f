"""A question of a run, opened: its labels and each stage's list, with the texts."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from apps.evals.matching import Found, Labelled, hits
from apps.evals.metrics import STAGES
from apps.evals.models import EvalRun, Label, LabelledQuestion, RunQuestion
from apps.evals.questions import read_questions
from apps.evals.selectors.passages import Place, PlaceText, read_places
from apps.evals.selectors.runs import OUTCOMES, labels_of, outcome_of
from apps.tenants.access import Access

TOP = 10  # passages of a list that are shown; the first on a label further down is shown, too


@dataclass(frozen=True)
class RankedPassage:
    """A line of a stage's list, with what stands there now."""

    rank: int
    score: float
    grade: int | None  # None: nobody has looked at it
    place: PlaceText


@dataclass(frozen=True)
class StageList:
    """What a stage put first, and the relevant passages that it put further down."""

    stage: str
    total: int
    shown: list[RankedPassage]


@dataclass(frozen=True)
class LabelPlace:
    """A label with its text, and the rank of the first passage on it in each stage."""

    label: Label
    place: PlaceText
    ranks: list[int | None]


@dataclass(frozen=True)
class QuestionShown:
    """A question of a run as its page shows it."""

    question: LabelledQuestion
    result: RunQuestion
    outcome: str
    stages: list[str]
    first_ranks: list[int | None]  # of anything relevant, as far down as a run looks
    labels: list[LabelPlace]
    lists: list[StageList]  # the last stage first: it is what readers get

    def list_of(self, stage: str) -> StageList | None:
        return next((each for each in self.lists if each.stage == stage), None)

    @property
    def kept(self) -> int:
        """Passages of the longest list."""
        return max((each.total for each in self.lists), default=0)


@dataclass(frozen=True)
class LabelPair:
    """A label in two runs: by stage, its rank before and after."""

    label: Label
    place: PlaceText
    ranks: list[tuple[int | None, int | None]]


def pair_labels(
    before: QuestionShown, after: QuestionShown, stages: Sequence[str]
) -> list[LabelPair]:
    """Both runs' ranks of each label, in the stages that both have."""
    old = {each.label.id: each for each in before.labels}
    return [
        LabelPair(
            each.label,
            each.place,
            [
                (
                    old[each.label.id].ranks[before.stages.index(stage)],
                    each.ranks[after.stages.index(stage)],
                )
                for stage in stages
            ],
        )
        for each in after.labels
        if each.label.id in old
    ]


@dataclass(frozen=True)
class _Mark:
    """A label where it was made and, on a document that another has replaced, where it is now.

    A run before the replacement found the one, a run after it the other.
    """

    label: Label
    spots: tuple[Labelled, ...]

    def is_on(self, found: Found) -> bool:
        return any(hits(spot, found) for spot in self.spots)

    @property
    def place(self) -> Place:
        spot = self.spots[-1]
        return Place(spot.document_id, spot.start, spot.end)


def read_question(access: Access, run: EvalRun, result: RunQuestion) -> QuestionShown:
    """Texts are read under the reader's rights; what was deleted since has none."""
    marks = _marks(result.question)
    lists = {stage: _found(result, stage) for stage in STAGES if stage in result.ranked}
    shown = {stage: _shown(each, marks) for stage, each in lists.items()}
    places = [_place_of(found) for each in shown.values() for _, found in each]
    texts = read_places(access, [*places, *(mark.place for mark in marks)])
    return QuestionShown(
        result.question,
        result,
        OUTCOMES[outcome_of(run, result)],
        list(lists),
        [_first_rank(result, stage) for stage in lists],
        [
            LabelPlace(
                mark.label, texts[mark.place], [_rank_of(mark, lists[stage]) for stage in lists]
            )
            for mark in marks
        ],
        [
            StageList(
                stage,
                len(lists[stage]),
                [
                    RankedPassage(rank, found.score, _grade(found, marks), texts[_place_of(found)])
                    for rank, found in shown[stage]
                ],
            )
            for stage in reversed(list(lists))
        ],
    )


def _marks(question: LabelledQuestion) -> list[_Mark]:
    now = {
        label.id: label
        for asked in read_questions(question.tenant_id, [question.id])
        for label in asked.labels
    }
    return [_mark(label, now.get(label.id)) for label in labels_of(question)]


def _mark(label: Label, now: Labelled | None) -> _Mark:
    made = Labelled(label.id, label.document_id, label.char_start, label.char_end, label.grade)
    return _Mark(label, (made,) if now is None or now == made else (made, now))


def _found(result: RunQuestion, stage: str) -> list[Found]:
    return [
        Found(uuid.UUID(chunk), uuid.UUID(document), start, end, score)
        for chunk, document, start, end, score, *_ in result.ranked[stage]
    ]


def _first_rank(result: RunQuestion, stage: str) -> int | None:
    rank = result.metrics.get(stage, {}).get("first_rank")
    return None if rank is None else int(rank)


def _shown(ranked: Sequence[Found], marks: Sequence[_Mark]) -> list[tuple[int, Found]]:
    further = {_rank_of(mark, ranked) for mark in marks if mark.label.grade > 0}
    return [
        (rank, found)
        for rank, found in enumerate(ranked, start=1)
        if rank <= TOP or rank in further
    ]


def _rank_of(mark: _Mark, ranked: Sequence[Found]) -> int | None:
    ranks = (rank for rank, found in enumerate(ranked, start=1) if mark.is_on(found))
    return next(ranks, None)


def _grade(found: Found, marks: Sequence[_Mark]) -> int | None:
    """The highest grade of the labels that it is on."""
    return max((mark.label.grade for mark in marks if mark.is_on(found)), default=None)


def _place_of(found: Found) -> Place:
    return Place(found.document_id, found.start, found.end, found.chunk_id)
