"""Making an answer that no cache had: rewrite → embed → search → rerank → assemble → generate."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing

from django.utils.translation import gettext_noop

from apps.chat.pipeline import fallback
from apps.chat.pipeline.assemble import Prompt, assemble
from apps.chat.pipeline.earning import earn_citations
from apps.chat.pipeline.generate import generate
from apps.chat.pipeline.prompts import STYLES
from apps.chat.pipeline.rewrite import rewrite, worst_rewrite_tokens
from apps.chat.pipeline.types import (
    AnswerEnded,
    AnswerRequest,
    NoticeGiven,
    Outcome,
    PassagesShown,
    PipelineEvent,
    QuestionRewritten,
    SourcesFound,
    TextWritten,
    apply,
)
from apps.gateway import service as gateway
from apps.gateway.admission import Admission, Budget
from apps.gateway.caching import CacheUse
from apps.gateway.calling import catalogue
from apps.gateway.errors import GatewayError, StoreDown
from apps.gateway.types import Call, Model
from apps.inference.errors import InferenceError
from apps.retrieval.context import Neighbour, read_neighbours
from apps.retrieval.options import options_for
from apps.retrieval.pipeline import retrieve
from apps.retrieval.types import Notice, Retrieval
from apps.telemetry.hops import Trace
from apps.tenants.aio import in_thread

logger = logging.getLogger(__name__)

RETRIEVED_PASSAGES = 8
_GENERATING = ("assemble", "generate")
GENERATOR_DOWN = Notice(
    "generator_down",
    gettext_noop(
        "The language model cannot be reached, so the best passages are quoted as they stand."
    ),
)
GENERATOR_BROKE_OFF = Notice(
    "generator_broke_off",
    gettext_noop("The language model broke off before it was done; what it had written is kept."),
)
GENERATOR_DOWN_AGAIN = Notice(
    "generator_down",
    gettext_noop(
        "The language model cannot be reached, so the answer still ends where it broke off."
    ),
)
LIMITS_DOWN = Notice(
    "limits_down",
    gettext_noop(
        "The store of limits cannot be reached, so no language model is asked: the best passages "
        "are quoted as they stand."
    ),
)


async def make_answer(
    request: AnswerRequest, trace: Trace, admission: Admission | None, use: CacheUse
) -> AsyncGenerator[PipelineEvent, None]:
    """The answer's events, AnswerEnded last. Money and tokens are reserved before any work."""
    made = Outcome()
    async with AsyncExitStack() as stack:
        budget = None
        if admission is not None and request.model is not None:
            model = request.model
            answer = (model.context_tokens - model.max_tokens, model.max_tokens)
            offer = await catalogue.load()
            worst = gateway.worst_case(offer, model, answer, worst_rewrite_tokens(request))
            budget = await stack.enter_async_context(admission.reserved(worst))
        steps = _Making(request, trace, made, budget, use)
        async with aclosing(steps.events()) as events:
            async for event in events:
                apply(event, made)
                yield event
        yield _ended(made, budget)
        if admission is not None and made.kind == "not_found" and not made.given:
            await asyncio.shield(admission.book(_without_a_call(request, use)))


def _ended(made: Outcome, budget: Budget | None) -> AnswerEnded:
    return AnswerEnded(
        kind=made.kind,
        text=made.text,
        sentences=made.sentences,
        prompt_tokens=made.prompt_tokens,
        completion_tokens=made.completion_tokens,
        tokens_estimated=made.tokens_estimated,
        interrupted=made.interrupted,
        cost_micros=budget.spent_micros if budget else 0,
    )


def _without_a_call(request: AnswerRequest, use: CacheUse) -> Call:
    """An answer that took no model: it counts among the cache's misses all the same."""
    return Call(hop="generate", model=request.model.alias if request.model else "", cache=use.note)


class _Making:
    """The steps of one answer. `made` is filled from the events, by the caller."""

    def __init__(
        self,
        request: AnswerRequest,
        trace: Trace,
        made: Outcome,
        budget: Budget | None,
        use: CacheUse,
    ) -> None:
        self.request = request
        self.trace = trace
        self.made = made
        self.budget = budget
        self.use = use

    def events(self) -> AsyncGenerator[PipelineEvent, None]:
        return self._go_on() if self.request.beginning else self._begin()

    async def _go_on(self) -> AsyncGenerator[PipelineEvent, None]:
        """From where an answer broke off, with what it had been given."""
        beginning = self.request.beginning
        assert beginning is not None  # noqa: S101 - asked before
        _skip(self.trace, ("rewrite", "embed", "search", "rerank"), "going on")
        if beginning.searched_as:
            yield QuestionRewritten(beginning.searched_as)
        yield SourcesFound(beginning.passages)
        yield TextWritten(beginning.text)
        # Should it be stopped before the model is asked, what there is keeps its citations.
        yield PassagesShown(beginning.cited, beginning.passages[: beginning.cited], 0)
        async with aclosing(self._write()) as events:
            async for event in events:
                yield event

    async def _begin(self) -> AsyncGenerator[PipelineEvent, None]:
        standalone = await rewrite(self.request, self.trace, self.budget)
        if standalone.is_changed:
            yield QuestionRewritten(standalone.text)
        if standalone.notice is not None:
            yield NoticeGiven(standalone.notice)
        question = standalone.text if standalone.is_changed else self.request.question
        found, not_found_below = await in_thread(_search, self.request, question, self.trace)
        for notice in found.notices:
            yield NoticeGiven(notice)
        yield SourcesFound(found.passages)
        best = max((passage.relevance for passage in found.passages), default=0.0)
        if not found.passages or best < not_found_below:
            _skip(self.trace, _GENERATING, "no relevant passage")
            self.made.kind = "not_found"
            yield TextWritten(_not_found_text(found))
            return
        async with aclosing(self._write()) as events:
            async for event in events:
                yield event

    async def _write(self) -> AsyncGenerator[PipelineEvent, None]:
        """Hops assemble and generate; falls back to quoting when no model can be asked."""
        try:
            if self.budget is None and self.request.model is not None:
                _skip(self.trace, _GENERATING, "no admission")
                if self.request.beginning:
                    raise StoreDown
                yield NoticeGiven(LIMITS_DOWN)
                yield self._quote()
                return
            prompt = await self._assemble()
            yield self._shown(prompt)
            async with aclosing(self._generate(prompt)) as events:
                async for event in events:
                    yield event
        except (InferenceError, GatewayError) as exc:
            # The code only: an upstream's message may quote the prompt.
            logger.warning("generation failed: %s", exc.code)
            wrote = self.made.text != self._beginning
            yield NoticeGiven(GENERATOR_BROKE_OFF if wrote else self._down)
            if wrote or self._beginning:
                self.made.interrupted = True
            else:
                yield self._quote()
        if self.made.kind == "generated":
            earn_citations(self.made)

    @property
    def _beginning(self) -> str:
        return self.request.beginning.text if self.request.beginning else ""

    @property
    def _down(self) -> Notice:
        return GENERATOR_DOWN_AGAIN if self.request.beginning else GENERATOR_DOWN

    def _shown(self, prompt: Prompt) -> PassagesShown:
        """What the model was shown, by now or for the beginning."""
        given, widened = len(prompt.passages), prompt.widened
        if self.request.beginning and self.request.beginning.cited > given:
            widened += self.made.passages[given : self.request.beginning.cited]
            given = len(widened)
        return PassagesShown(given, widened, prompt.tokens)

    async def _assemble(self) -> Prompt:
        with self.trace.hop("assemble") as hop:
            model = self.request.model or gateway.find_model("")
            prompt = await assemble(
                question=self._question_for(model),
                passages=self.made.passages,
                history=self.request.history,
                model=model,
                count_tokens=functools.partial(gateway.count_tokens, model),
                neighbours=await self._neighbours(model),
                beginning=self._beginning,
            )
            pairs = zip(prompt.passages, prompt.widened, strict=True)
            hop.set(
                passages=len(prompt.passages),
                widened=sum(narrow is not wide for narrow, wide in pairs),
                prompt_tokens=prompt.tokens,
            )
            return prompt

    async def _neighbours(self, model: Model) -> list[Neighbour]:
        """What stands around the passages, for a model that is shown whole ones."""
        if STYLES[model.prompt].excerpt_chars:
            return []
        passages = self.made.passages[: model.passages]
        return await in_thread(read_neighbours, tenant_id=self.request.tenant_id, passages=passages)

    def _question_for(self, model: Model) -> str:
        """As it was asked where the model sees what it was asked after; else as searched for.

        A person's own words say more than a rewrite of them, but only next to the conversation:
        "why?" alone is no question.
        """
        if STYLES[model.prompt].reads_history and self.request.history:
            return self.request.question
        return self.made.searched_as or self.request.question

    async def _generate(self, prompt: Prompt) -> AsyncGenerator[PipelineEvent, None]:
        assert self.budget is not None  # noqa: S101 - there is a model, and an admission for it
        pieces = generate(
            prompt, self.made, self.trace, self.budget, self.use.note, self._beginning
        )
        async with aclosing(pieces) as texts:
            async for text in texts:
                yield TextWritten(text)

    def _quote(self) -> TextWritten:
        self.made.kind = "quoted"
        text, self.made.sentences = fallback.quote_passages(self.made.passages)
        return TextWritten(text)


def _search(request: AnswerRequest, question: str, trace: Trace) -> tuple[Retrieval, float]:
    """Hops embed, search and rerank, in one thread, and the relevance below which to abstain."""
    options = options_for(request.tenant_id)
    found = retrieve(
        tenant_id=request.tenant_id,
        question=question,
        collection_ids=request.collection_ids,
        trace=trace,
        limit=RETRIEVED_PASSAGES,
        options=options,
    )
    return found, options.not_found_below


def _skip(trace: Trace, names: Sequence[str], reason: str) -> None:
    for name in names:
        with trace.hop(name) as hop:
            hop.end_as("skipped")
            hop.set(reason=reason)


def _not_found_text(found: Retrieval) -> str:
    return fallback.NOT_FOUND_TEXT if found.passages else fallback.NO_DOCUMENTS_TEXT
