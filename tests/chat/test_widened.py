"""Citations of answers whose passages were shown with what stands around them."""

from __future__ import annotations

import uuid
from dataclasses import replace

from apps.chat.pipeline.earning import earn_citations
from apps.chat.pipeline.types import Outcome
from apps.retrieval.types import Passage
from tests.chat.test_citations import passage

SAID = "Employees receive 25 days of leave. [1]"


def earned(passages: list[Passage], around: dict[int, str], text: str = SAID) -> Outcome:
    """`around` says what each passage, by number from 1, was followed by."""
    outcome = Outcome(text=text, passages=tuple(passages), given=len(passages))
    outcome.widened = tuple(
        replace(each, text=f"{each.text}\n{around.get(number, '')}".strip())
        for number, each in enumerate(passages, start=1)
    )
    earn_citations(outcome)
    return outcome


def other(text: str) -> Passage:
    return replace(passage(text), chunk_id=uuid.uuid4())


def test_a_sentence_of_the_text_around_a_passage_cites_the_passage() -> None:
    outcome = earned([passage("About leave.")], {1: "Employees receive 25 days of leave."})
    assert outcome.cited == (1,)
    assert outcome.passages[0].text == "About leave."


def test_a_passage_that_says_so_itself_comes_before_one_beside_which_it_stands() -> None:
    passages = [other("About leave."), other("Employees receive 25 days of leave.")]
    outcome = earned(passages, {1: "Employees receive 25 days of leave."})
    assert outcome.cited == (2,)


def test_what_was_not_given_supports_nothing() -> None:
    outcome = earned([passage("About leave.")], {1: "Employees receive 30 days of leave."})
    assert outcome.cited == ()
    assert not outcome.sentences[0].supported
