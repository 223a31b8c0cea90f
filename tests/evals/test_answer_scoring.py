"""How answers are scored and slices judged: pure functions."""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence

import pytest

from apps.evals.answering.judging import Budgets, Pair, Row, judge, outcome, read_budgets
from apps.evals.answering.needles import (
    DEPTHS,
    Cell,
    cells_read,
    grid,
    haystack,
    is_found,
    needle_of,
)
from apps.evals.answering.scoring import Given, references_of, score, token_f1, words_of
from apps.evals.answering.slicing import ALL, Drawn, draw, script_of, slices_of
from apps.evals.matching import Found, Labelled

HANDBOOK, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)


def passage(document: uuid.UUID = HANDBOOK, start: int = 0, end: int = 100) -> Found:
    return Found(uuid.uuid4(), document, start, end, 0.0)


def label(start: int | None = 40, end: int | None = 60, grade: int = 1, id: int = 1) -> Labelled:
    return Labelled(id, HANDBOOK, start, end, grade)


def scored(
    text: str = "It opens at nine.",
    references: Sequence[str] = ("at nine",),
    labels: Sequence[Labelled] = (),
    cited: Sequence[Found] = (),
    *,
    abstained: bool = False,
    unanswerable: bool = False,
) -> dict[str, float]:
    return score(
        Given(text, abstained, tuple(cited)),
        references=references,
        labels=labels,
        unanswerable=unanswerable,
    )


@pytest.mark.parametrize(
    ("answer", "reference", "match", "exact"),
    [
        ("The 10th century.", "10th century", 1, 1),
        ("In the 10th and 11th centuries [1].", "10th and 11th centuries", 1, 0),
        ("It was Rollo, [2] the Norse leader.", "rollo", 1, 0),
        ("Denmark, Iceland, and Norway", "Denmark, Iceland and Norway", 1, 1),
        ("She is a catwoman", "cat", 0, 0),  # whole words only
        ("", "nine", 0, 0),
        ("在第十世纪，诺曼人来到法国。", "第十世纪", 1, 0),
        ("ＮＩＮＥ o'clock", "nine o'clock", 1, 1),
        ("Straße", "STRASSE", 1, 1),
        ("1 234", "234", 1, 0),
    ],
)
def test_words_match_as_squad_compares_them(
    answer: str, reference: str, match: int, exact: int
) -> None:
    found = scored(answer, [reference])
    assert (found["answer_match"], found["exact_match"]) == (match, exact)


def test_of_several_references_the_best_counts() -> None:
    references = references_of("the 9th century\n\n  \n 10th century\n...")
    assert references == ["the 9th century", " 10th century"]
    assert scored("The 10th century", references)["exact_match"] == 1


def test_f1_is_that_of_words() -> None:
    assert token_f1(words_of("denmark iceland norway"), words_of("Norway and Denmark")) == (
        pytest.approx(2 * (2 / 3) * (2 / 3) / (2 / 3 + 2 / 3))
    )
    assert token_f1(["a"], []) == 0


def test_an_answer_that_abstains_matches_nothing_and_is_wrong_to() -> None:
    found = scored("nine", ["nine"], [label()], abstained=True)
    assert (found["answer_match"], found["abstention"], found["citation_precision"]) == (0, 0, 0)


@pytest.mark.parametrize(("abstained", "right"), [(True, 1), (False, 0)])
def test_a_question_without_an_answer_is_scored_by_abstention_alone(
    abstained: bool, right: int
) -> None:
    assert scored(abstained=abstained, unanswerable=True) == {"abstention": right}


def test_citations_are_right_where_they_overlap_a_label() -> None:
    cited = [passage(), passage(start=60, end=90), passage(OTHER)]
    found = scored(labels=[label(), label(200, 210, id=2), label(300, 310, 0, 3)], cited=cited)
    assert found["citation_precision"] == pytest.approx(1 / 3)
    assert found["citation_recall"] == pytest.approx(1 / 2)


def test_a_label_without_a_range_is_all_of_its_document() -> None:
    found = scored(labels=[label(None, None)], cited=[passage(start=900, end=999)])
    assert found["citation_precision"] == found["citation_recall"] == 1


def test_an_answer_that_cites_nothing_has_no_precision_to_hide_behind() -> None:
    assert scored(labels=[label()])["citation_precision"] == 0


def test_without_references_there_is_no_answer_match() -> None:
    assert "answer_match" not in scored(references=[])


def test_slices_are_those_of_people_and_those_read_off_the_text() -> None:
    named = slices_of(text="When?", own=["hr", "hr"], labels=2, unanswerable=False)
    assert named == (
        ALL,
        "answers/answerable",
        "own/hr",
        "auto/several labels",
        "auto/short question",
        "auto/script Latin",
    )
    assert "auto/one label" not in slices_of(text="?", own=[], labels=0, unanswerable=True)


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("When?", "LATIN"),
        ("在计算物体面积时", "CJK"),
        ("متى؟", "ARABIC"),
        ("कब?", "DEVANAGARI"),
        ("เมื่อไร", "THAI"),
        ("Когда?", "CYRILLIC"),
        ("42!?", "NONE"),
        ("", "NONE"),
    ],
)
def test_the_script_is_that_of_most_letters(text: str, script: str) -> None:
    assert script_of(text) == script


def drawn(count: int, every: int) -> list[Drawn]:
    return [
        Drawn(uuid.UUID(int=n), f"q{n}", (ALL, "own/rare") if n % every == 0 else (ALL,))
        for n in range(count)
    ]


def test_a_sample_is_bounded_and_rare_slices_are_not_lost_in_it() -> None:
    questions = drawn(1000, 20)
    chosen = draw(questions, sample=100, seed=1)
    rare = {each.id for each in questions if len(each.slices) > 1}
    assert len(chosen) == len(set(chosen)) == 100
    assert len(rare & set(chosen)) >= 30
    assert chosen == draw(list(reversed(questions)), sample=100, seed=1)
    assert chosen != draw(questions, sample=100, seed=2)


def test_a_sample_larger_than_the_set_is_the_set() -> None:
    assert len(draw(drawn(7, 2), sample=100, seed=0)) == 7
    assert draw([], sample=5, seed=0) == []


def pairs(count: int, name: str, before: float, after: float, **metrics: float) -> list[Pair]:
    """`before` and `after`: of so many, the share that matched."""
    return [
        Pair(
            (ALL, name),
            {"answer_match": float(n < before * count)},
            {"answer_match": float(n < after * count)},
        )
        for n in range(count)
    ]


def row(rows: Sequence[Row], name: str, metric: str = "answer_match") -> Row:
    [found] = [each for each in rows if (each.slice, each.metric) == (name, metric)]
    return found


def test_a_slice_that_regresses_under_a_better_average_fails_the_gate() -> None:
    both = pairs(200, "own/easy", 0.5, 0.9) + pairs(40, "own/tables", 0.9, 0.5)
    rows = judge(both, Budgets())
    assert row(rows, ALL).change > 0.2
    assert row(rows, "own/tables").verdict == "beyond"
    assert row(rows, "own/easy").verdict == "within"
    assert outcome(rows) == "failed"


def test_what_stays_within_every_budget_passes() -> None:
    assert outcome(judge(pairs(100, "own/a", 0.8, 0.79), Budgets())) == "passed"


@pytest.mark.parametrize(("budget", "verdict"), [(0.10, "passed"), (0.09, "failed")])
def test_a_loss_of_just_the_budget_is_within_it(budget: float, verdict: str) -> None:
    rows = judge(pairs(100, "own/a", 0.8, 0.7), Budgets(default=budget))
    assert outcome(rows) == verdict


def test_a_slice_may_have_a_budget_of_its_own() -> None:
    both = pairs(100, "own/a", 0.8, 0.7)
    assert outcome(judge(both, Budgets(0.2, {"a": 0.05}))) == "failed"
    assert outcome(judge(both, Budgets(0.05, {"a": 0.2, "every question": 0.2}))) == "passed"


def test_few_questions_cannot_show_that_all_is_well() -> None:
    rows = judge(pairs(100, "own/a", 0.8, 0.8) + pairs(29, "own/b", 0.8, 0.8), Budgets())
    assert row(rows, "own/b").verdict == "few"
    assert outcome(rows) == "undecided"


def test_few_questions_can_show_that_it_is_not() -> None:
    rows = judge(pairs(200, "own/a", 0.5, 0.9) + pairs(12, "auto/script Thai", 1, 0), Budgets())
    assert row(rows, "auto/script Thai").verdict == "beyond"
    assert outcome(rows) == "failed"


def test_a_slice_read_off_the_text_with_few_questions_is_shown_and_blocks_nothing() -> None:
    rows = judge(pairs(100, "own/a", 0.8, 0.8) + pairs(5, "auto/script Thai", 1, 1), Budgets())
    assert row(rows, "auto/script Thai").verdict == "few"
    assert outcome(rows) == "passed"


def test_the_stricter_rule_asks_that_a_loss_is_ruled_out() -> None:
    both = [
        Pair((ALL,), {"answer_match": float(n % 2)}, {"answer_match": float((n + n % 3) % 2)})
        for n in range(60)
    ]
    loose, strict = (judge(both, Budgets(rule=rule)) for rule in ("mean", "bound"))
    assert abs(row(loose, ALL).change) <= 0.02
    assert (outcome(loose), outcome(strict)) == ("passed", "undecided")


def test_nothing_compared_is_nothing_passed() -> None:
    assert outcome(judge([], Budgets())) == "undecided"
    only_shown = [Pair((ALL,), {"token_f1": 1.0}, {"token_f1": 1.0})] * 50
    assert outcome(judge(only_shown, Budgets())) == "undecided"


def test_a_metric_that_one_side_lacks_is_not_compared() -> None:
    rows = judge([Pair((ALL,), {"answer_match": 1.0}, {})] * 40, Budgets())
    assert rows == []


def test_the_same_seed_gives_the_same_intervals() -> None:
    both = pairs(100, "own/a", 0.8, 0.7)
    assert judge(both, Budgets(), seed=3) == judge(both, Budgets(), seed=3)
    assert row(judge(both, Budgets()), ALL).low < -0.1 < row(judge(both, Budgets()), ALL).high


@pytest.mark.parametrize("value", [-0.01, 1.01, math.nan, math.inf, "x"])
def test_a_budget_is_a_share(value: object) -> None:
    with pytest.raises(ValueError, match=r"share|convert"):
        read_budgets({"default": value})
    with pytest.raises(ValueError, match=r"share|convert"):
        read_budgets({"slices": {"a": value}})


def test_budgets_survive_being_stored() -> None:
    budgets = Budgets(0.1, {"a": 0.2}, 0.3, "bound")
    assert read_budgets(budgets.as_json()) == budgets


def test_the_grid_covers_what_is_read_now_and_looks_beyond_it() -> None:
    cells = grid(1000, 4000)
    assert {cell.tokens for cell in cells if cell.judged} == {250, 500, 750, 950}
    assert [cell.tokens for cell in cells if not cell.judged] == [3800] * len(DEPTHS)
    assert all(cell.judged for cell in grid(4000, 1000))
    assert max(cell.tokens for cell in grid(4000, 1000)) == 3800
    assert sum(cell.judged for cell in cells) >= 30


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("passages", [1, 4, 8])
def test_the_needle_lies_at_its_depth_once(depth: float, passages: int) -> None:
    cell = Cell(1000, depth, 0)
    hay = haystack(cell, 7, passages=passages)
    text = " ".join(each.text for each in hay)
    needle = needle_of(cell, 7)
    assert len(hay) <= passages
    assert text.count(needle.sentence) == 1
    assert text.index(needle.sentence) / len(text) == pytest.approx(depth, abs=0.05)
    assert len(text) / 4 == pytest.approx(1000 - 160, rel=0.1)


def test_no_two_haystacks_begin_alike() -> None:
    cells = [Cell(500, depth, repeat) for depth in DEPTHS for repeat in range(3)]
    begins = {haystack(cell, seed, passages=2)[0].text[:60] for cell in cells for seed in (0, 1)}
    assert len(begins) == 2 * len(cells)
    assert len({needle_of(cell, 0).code for cell in cells}) == len(cells)


@pytest.mark.parametrize(
    ("answer", "found"),
    [("It is 1234567.", True), ("1,234,567", True), ("1 234 567 [1]", True), ("123456", False)],
)
def test_a_code_is_found_however_it_is_written(answer: str, found: bool) -> None:
    needle = needle_of(Cell(100, 0, 0), 0)
    assert is_found(answer, type(needle)(needle.sentence, needle.question, "1234567")) is found


def test_the_grid_is_read_by_side_length_and_depth() -> None:
    cells = [Cell(10, 0.0, 0), Cell(10, 0.0, 1), Cell(20, 1.0, 0, judged=False)]
    found = [
        {"cell": 0, "in_force": True, "candidate": False},
        {"cell": 1, "in_force": True, "candidate": True},
        {"cell": 2, "candidate": True},
    ]
    assert [(c["side"], c["tokens"], c["asked"], c["found"]) for c in cells_read(cells, found)] == [
        ("candidate", 10, 2, 1),
        ("candidate", 20, 1, 1),
        ("in_force", 10, 2, 2),
    ]
