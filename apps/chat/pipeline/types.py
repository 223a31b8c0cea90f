"""What goes into the answering pipeline and what comes out of it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from apps.gateway.types import Model
from apps.inference.types import ChatTurn
from apps.retrieval.types import Notice, Passage

Kind = Literal["generated", "quoted", "not_found"]
# Why no passage supports a sentence.
Reason = Literal["no_passage", "words_missing", "numbers_differ", "negation_differs"]


@dataclass(frozen=True)
class Exchange:
    """An earlier question in the form that was searched for, and what was answered."""

    question: str
    answer: str = ""  # "" unless a model wrote one


@dataclass(frozen=True)
class Beginning:
    """What there is of an answer that broke off, for the model to go on from."""

    text: str  # not empty
    # As they were, so that marker n is `passages[n - 1]` again; those that the reader may no
    # longer read, or that are gone, have no text.
    passages: tuple[Passage, ...]
    cited: int = 0  # the highest marker that it cites
    searched_as: str = ""


@dataclass(frozen=True)
class AnswerRequest:
    """One question, and all that is needed to answer it."""

    tenant_id: uuid.UUID
    question: str
    collection_ids: tuple[uuid.UUID, ...]
    model: Model | None  # None: no model server is configured
    history: tuple[ChatTurn, ...] = ()  # earlier turns, oldest first
    before: tuple[Exchange, ...] = ()  # what a follow-up may refer to, oldest first
    question_id: uuid.UUID | None = None  # of the stored question, for the span
    anew: bool = False  # the person has seen an answer and wants another: no cache
    beginning: Beginning | None = None  # go on from there: nothing is searched for


@dataclass(frozen=True)
class QuestionRewritten:
    """A follow-up is searched for in a form that stands alone."""

    text: str


@dataclass(frozen=True)
class SourcesFound:
    """The passages the answer may cite; marker n is `passages[n - 1]`."""

    passages: tuple[Passage, ...]


@dataclass(frozen=True)
class PassagesShown:
    """What the model is shown: the first `given` sources, with what stands around them."""

    given: int
    widened: tuple[Passage, ...]
    prompt_tokens: int


@dataclass(frozen=True)
class NoticeGiven:
    """Something was degraded: said to the reader at once."""

    notice: Notice


@dataclass(frozen=True)
class TextWritten:
    """More of the answer, as Markdown."""

    text: str


@dataclass(frozen=True)
class Sentence:
    """One sentence of the answer, `text[start:end]`, and the passages that support it."""

    start: int
    end: int
    markers: tuple[int, ...]
    supported: bool
    reason: str = ""  # a `Reason` where it is not supported; "" of answers stored before there were


def read_sentence(data: Mapping[str, Any]) -> Sentence:
    """A sentence as it was stored, in this version or before."""
    markers = tuple(data["markers"])
    return Sentence(
        data["start"], data["end"], markers, data["supported"], data.get("reason") or ""
    )


@dataclass(frozen=True)
class AnswerEnded:
    """The last event: the whole answer, which may be shorter than what was written."""

    kind: Kind
    text: str
    sentences: tuple[Sentence, ...]
    prompt_tokens: int | None
    completion_tokens: int | None
    tokens_estimated: bool
    interrupted: bool
    cost_micros: int = 0


@dataclass
class Outcome:
    """The whole answer, filled as its events come, so that a stop keeps it."""

    kind: Kind = "generated"
    text: str = ""
    # What was searched for where that is not the question itself; None until that is known.
    searched_as: str | None = None
    passages: tuple[Passage, ...] = ()
    given: int = 0  # how many of them, from the first, the model was shown
    widened: tuple[Passage, ...] = ()  # those, with what the model was shown around them
    sentences: tuple[Sentence, ...] = ()
    notices: list[Notice] = field(default_factory=list)
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    tokens_estimated: bool = False
    interrupted: bool = False  # the generator failed after it had begun
    cost_micros: int | None = None  # None where no model was asked
    follow_ups: tuple[str, ...] = ()  # questions one may go on with
    cache: str = ""  # how the response cache gave it: hit, semantic or shared; "" where it was made

    @property
    def cited(self) -> tuple[int, ...]:
        """The markers that the answer's sentences earned, ascending."""
        return tuple(sorted({marker for s in self.sentences for marker in s.markers}))


PipelineEvent = (
    QuestionRewritten | SourcesFound | PassagesShown | NoticeGiven | TextWritten | AnswerEnded
)


def apply(event: PipelineEvent, outcome: Outcome) -> None:
    """Let `outcome` have what `event` tells."""
    match event:
        case QuestionRewritten():
            outcome.searched_as = event.text
        case SourcesFound():
            outcome.passages = event.passages
            outcome.searched_as = outcome.searched_as or ""
        case PassagesShown():
            outcome.given, outcome.widened = event.given, event.widened
            outcome.prompt_tokens, outcome.tokens_estimated = event.prompt_tokens, True
        case NoticeGiven():
            outcome.notices.append(event.notice)
        case TextWritten():
            outcome.text += event.text
            if outcome.given:  # servers send a piece a token
                outcome.completion_tokens = (outcome.completion_tokens or 0) + 1
        case AnswerEnded():
            outcome.kind, outcome.text, outcome.sentences = (
                event.kind,
                event.text,
                event.sentences,
            )
            outcome.prompt_tokens = event.prompt_tokens
            outcome.completion_tokens = event.completion_tokens
            outcome.tokens_estimated = event.tokens_estimated
            outcome.interrupted = event.interrupted
