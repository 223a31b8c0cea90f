"""Finished blocks of an answer that is being written, judged as the whole will be at its end."""

from __future__ import annotations

from apps.chat.pipeline.earning import Earning
from apps.chat.pipeline.types import Outcome
from apps.chat.rendering.answers import render_answer
from apps.chat.rendering.blocks import Block, Blocks
from apps.chat.rendering.marks import CitationUrls


class LiveBlocks:
    """`add` the text as it comes; each finished block is told once, with what it earned."""

    def __init__(self, outcome: Outcome, citation_urls: CitationUrls) -> None:
        self._earning = Earning(outcome)
        self._urls = citation_urls
        self._blocks = Blocks(self._render)

    def add(self, text: str) -> list[Block]:
        return self._blocks.add(text)

    def _render(self, part: str) -> str:
        return render_answer(part, self._earning.judge(part), self._urls)
