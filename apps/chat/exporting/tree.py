"""An answer's Markdown as blocks of text runs, which every kind of file is then written from.

Styles are kept on the runs, not as nesting, so that the mark of a sentence may begin inside
emphasis and end outside it. HTML and images are not followed: they are text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from markdown_it.token import Token

from apps.chat.rendering.answers import LONGEST_MARKDOWN
from apps.chat.rendering.markdown import markdown
from apps.chat.rendering.positions import CHIP, CLOSE, OPEN

_MARKS = re.compile(f"{OPEN}|{CLOSE}([a-z_]*){CLOSE}|{CHIP}(\\d+){CHIP}")
_STYLES = {"strong": "strong", "em": "em", "s": "strike"}
_DISPLAYED = ("$$", r"\[")
_SAFE_LINKS = ("http://", "https://")


@dataclass(frozen=True)
class Run:
    """Text of one style. `kind`: text, code, math, display, cite (the number), doubt (the reason)
    or break."""

    text: str
    kind: str = "text"
    styles: tuple[str, ...] = ()  # of strong, em, strike, unsupported
    href: str = ""


@dataclass(frozen=True)
class Block:
    """`kind`: paragraph, heading, quote, list, item, code, math, table, row, cell or rule."""

    kind: str
    runs: tuple[Run, ...] = ()
    blocks: tuple[Block, ...] = ()
    text: str = ""  # of code and formulas
    info: str = ""  # the language of code; the side a cell leans to
    level: int = 0  # of a heading, from 1, without gaps
    start: int | None = None  # the first number of an ordered list


def parse(text: str) -> tuple[Block, ...]:
    """The blocks of an answer, read as the page reads it; `text` has the marks of citations."""
    if len(text) > LONGEST_MARKDOWN:
        return plain(_without_marks(text))
    return _Builder(markdown.parse(text)).blocks()


def plain(text: str) -> tuple[Block, ...]:
    """Paragraphs of text that is not Markdown; its lines stay lines."""
    return tuple(
        Block("paragraph", runs=tuple(_lines(part)))
        for part in text.split("\n\n")
        if part.strip("\n")
    )


def text_of(block: Block) -> str:
    """All its text, for telling the direction it reads in."""
    own = "".join(run.text for run in block.runs if run.kind in ("text", "code"))
    return own + "".join(text_of(each) for each in block.blocks)


def has_letters(text: str) -> bool:
    """Whether there is something to be seen in it."""
    return any(unicodedata.category(each)[0] in "LNPS" for each in text)


def all_runs(blocks: Sequence[Block]) -> Iterator[Run]:
    """The runs of these blocks and of those in them."""
    for block in blocks:
        yield from block.runs
        yield from all_runs(block.blocks)


def _lines(text: str) -> Iterator[Run]:
    for place, line in enumerate(text.strip("\n").split("\n")):
        if place:
            yield Run("", "break")
        yield Run(line)


class _Builder:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = iter(tokens)
        self._levels: list[int] = []  # of the headings that the present one is below
        self._doubted = False

    def blocks(self, until: str = "") -> tuple[Block, ...]:
        """Those up to the token `until`, or all."""
        found: list[Block] = []
        for token in self._tokens:
            if token.type == until:
                break
            if (block := self._block(token)) is not None:
                found.append(block)
        return tuple(found)

    def _block(self, token: Token) -> Block | None:
        match token.type:
            case "paragraph_open":
                return _lifted(Block("paragraph", runs=self._runs("paragraph_close")))
            case "heading_open":
                return self._heading(int(token.tag[1:]))
            case "blockquote_open":
                return Block("quote", blocks=self.blocks("blockquote_close"))
            case "bullet_list_open":
                return Block("list", blocks=self.blocks("bullet_list_close"))
            case "ordered_list_open":
                start = int(token.attrs.get("start", 1))
                return Block("list", blocks=self.blocks("ordered_list_close"), start=start)
            case "list_item_open":
                return Block("item", blocks=self.blocks("list_item_close"))
            case "table_open":
                return Block("table", blocks=self.blocks("table_close"))
            case "tr_open":
                return Block("row", blocks=self.blocks("tr_close"))
            case "th_open" | "td_open":
                lean = str(token.attrs.get("class", "")).removeprefix("cell-")
                closing = token.type.replace("open", "close")
                return Block("cell", runs=self._runs(closing), info=lean)
            case _:
                return self._leaf(token)

    def _leaf(self, token: Token) -> Block | None:
        if token.type in ("fence", "code_block"):
            info = token.info.split()[0] if token.info.split() else ""
            return Block("code", text=_without_marks(token.content).rstrip("\n"), info=info)
        if token.type == "math_block":
            # One that was not closed has no content: it is text.
            source = _without_marks(token.content or token.info).strip()
            return Block("math" if token.content else "code", text=source)
        return Block("rule") if token.type == "hr" else None

    def _heading(self, told: int) -> Block | None:
        """One without a letter to be seen is none."""
        runs = self._runs("heading_close")
        if not any(has_letters(run.text) for run in runs):
            return None
        return Block("heading", runs=runs, level=self._level(told))

    def _level(self, told: int) -> int:
        """Its depth below the headings before it: no level is left out."""
        while self._levels and self._levels[-1] >= told:
            self._levels.pop()
        self._levels.append(told)
        return len(self._levels)

    def _runs(self, closing: str) -> tuple[Run, ...]:
        runs: list[Run] = []
        for token in self._tokens:
            if token.type == closing:
                break
            runs += self._inline(token.children or [])
        return tuple(run for run in runs if run.text or run.kind in ("break", "doubt"))

    def _inline(self, tokens: Sequence[Token]) -> Iterator[Run]:
        styles: list[str] = []
        hrefs: list[str] = []
        for token in tokens:
            name = token.type.removesuffix("_open").removesuffix("_close")
            if name in _STYLES:
                styles.append(_STYLES[name]) if token.nesting > 0 else styles.pop()
            elif name == "link":
                hrefs.append(_href(token)) if token.nesting > 0 else hrefs.pop()
            else:
                for run in self._leaf_runs(token):
                    doubted = ["unsupported"] if self._doubted or run.kind == "doubt" else []
                    kept = tuple(sorted({*styles, *doubted}))
                    yield replace(run, styles=kept, href=hrefs[-1] if hrefs else "")

    def _leaf_runs(self, token: Token) -> Iterator[Run]:
        match token.type:
            case "text" | "text_special" | "html_inline":
                yield from self._marked(token.content)
            case "softbreak":
                yield Run("\n")
            case "hardbreak":
                yield Run("", "break")
            case "code_inline":
                yield Run(_without_marks(token.content), "code")
            case "math_inline":
                kind = "display" if token.markup in _DISPLAYED else "math"
                yield Run(_without_marks(token.content).strip(), kind)
            case "image":  # nothing is fetched: what it shows, in words
                yield from self._marked(token.content)

    def _marked(self, text: str) -> Iterator[Run]:
        position = 0
        for mark in _MARKS.finditer(text):
            yield Run(text[position : mark.start()])
            position = mark.end()
            if mark[2]:
                yield Run(mark[2], "cite")
            else:
                if mark[0] != OPEN:
                    yield Run(mark[1] or "", "doubt")
                self._doubted = mark[0] == OPEN
        yield Run(text[position:])


def _without_marks(text: str) -> str:
    """For code and formulas, which show none."""
    return _MARKS.sub("", text)


def _href(token: Token) -> str:
    href = str(token.attrs.get("href", ""))
    return href if href.startswith(_SAFE_LINKS) else ""


def _lifted(paragraph: Block) -> Block:
    """A formula alone in its paragraph stands as a block."""
    runs = [run for run in paragraph.runs if run.kind != "text" or run.text.strip()]
    if len(runs) == 1 and runs[0].kind == "display":
        return Block("math", text=runs[0].text)
    return paragraph
