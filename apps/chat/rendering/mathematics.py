r"""Formulas in Markdown, as MathML made on the server: no script is needed to show them.

`$…$` and `\(…\)` stand in a line, `$$…$$` and `\[…\]` in the middle of a line of their own. A
formula that cannot be read stays as its source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from math_core import LatexError, LatexToMathML

from apps.chat.rendering.positions import PRIVATE

# Deeper nesting than 5,000 overflows the converter's stack and ends the process: a thousand
# characters hold 500 levels at most. Formulas of people have less than 300 characters.
LONGEST_FORMULA = 1000
_DELIMITERS = (("$$", "$$"), (r"\[", r"\]"), (r"\(", r"\)"), ("$", "$"))
_BLOCKS = {"$$": "$$", r"\[": r"\]"}
# Between dollars, words are prices unless a sign of TeX is among them: "$5/month to 10$".
_TEX_SIGN = re.compile(r"\\[A-Za-z]|[\^_={}]")
# What escapes text of documents looks like `\[12\]`: no formula has only words and figures.
_TEX_OR_SIGN = re.compile(r"\\[A-Za-z]|(?<!\\)[\^_={}+*/<>|]")
_DEFINES = re.compile(r"\\(?:g?def|let|\w*newcommand\*?|\w*newenvironment|DeclareMathOperator)\b")
_AFTER = re.compile(r"(?:\s|[.,;:]|\[\d{1,3}\])*")
_STYLE = re.compile(r' style="([^"]*)"')

_converter = LatexToMathML(fancy_error=False, max_expansions=100)


def mathematics(markdown: MarkdownIt) -> None:
    """Let `markdown` read formulas."""
    before: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    markdown.block.ruler.before("fence", "math_block", _block, before)
    markdown.inline.ruler.before("escape", "math_inline", _inline)
    markdown.add_render_rule("math_block", _render_block)
    markdown.add_render_rule("math_inline", _render_inline)


def to_mathml(formula: str, *, display: bool) -> str | None:
    """MathML of TeX, or None where it cannot be read."""
    # Own commands multiply what they are given: 50 kB of TeX made 450 MB.
    if len(formula) > LONGEST_FORMULA or _DEFINES.search(formula):
        return None
    try:
        found = _converter.convert_with_local_state(formula.strip(), displaystyle=display)
    except LatexError:
        return None
    return _STYLE.sub(_aligned, found)


def _aligned(style: re.Match[str]) -> str:
    """The site's policy forbids styles in pages: the side that a cell keeps to is a class."""
    for side in ("left", "right"):
        if f"text-align: {side}" in style[1]:
            return f' class="math-{side}"'
    return ""


def _block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Opened by a delimiter at the start of a line; ended by its other one, or an empty line.

    Decided line by line: what follows never changes what was read, so that finished blocks can
    be told while an answer is written.
    """
    if state.is_code_block(start):
        return False
    opening = _line(state, start).strip()
    closing = _BLOCKS.get(opening[:2])
    if closing is None or (closing in opening[2:] and not _closes(opening[2:], closing)):
        return False
    if silent:
        return True
    last = start
    while last < end and not _closes(_line(state, last)[2 if last == start else 0 :], closing):
        if last > start and (state.isEmpty(last) or state.sCount[last] < state.blkIndent):
            break
        last += 1
    closed = last < end and _closes(_line(state, last)[2 if last == start else 0 :], closing)
    state.line = last + 1 if closed else last
    source = state.getLines(start, state.line, state.blkIndent, False).strip()
    token = state.push("math_block", "math", 0)
    token.block, token.map, token.info = True, [start, state.line], source
    token.content = source[2 : source.rfind(closing)] if closed else ""
    return True


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _closes(line: str, closing: str) -> bool:
    """Whether the line ends the formula; a full stop or a citation's marker may follow."""
    at = line.find(closing)
    return at >= 0 and _AFTER.fullmatch(line, at + len(closing)) is not None


def _inline(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "$\\":
        return False
    for opening, closing in _DELIMITERS:
        if state.src.startswith(opening, state.pos):
            found = _find_end(state, opening, closing)
            if found is None:
                return False
            if not silent:
                token = state.push("math_inline", "math", 0)
                token.content = state.src[state.pos + len(opening) : found]
                token.markup, token.info = opening, closing
            state.pos = found + len(closing)
            return True
    return False


def _find_end(state: StateInline, opening: str, closing: str) -> int | None:
    """Where the closing delimiter of a formula that begins here stands."""
    start = state.pos + len(opening)
    end = state.src.find(closing, start, min(state.posMax, start + LONGEST_FORMULA))
    if end < 0 or not state.src[start:end].strip():
        return None
    content = state.src[start:end]
    if opening != "$":
        return end if opening == "$$" or _TEX_OR_SIGN.search(content) or len(content) < 3 else None
    before = state.src[state.pos - 1 : state.pos]
    after = state.src[end + 1 : end + 2]
    if before.isalnum() or after.isdigit() or content[0].isspace() or content[-1].isspace():
        return None
    if content.endswith("\\") or (" " in content and not _TEX_SIGN.search(content)):
        return None
    return end


def _render_inline(
    self: RendererHTML, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
) -> str:
    token = tokens[idx]
    display = token.markup in _BLOCKS
    source = f"{token.markup}{token.content}{token.info}"
    return _mathml(token.content, source, display=display)


def _render_block(
    self: RendererHTML, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
) -> str:
    token = tokens[idx]
    return f"<p>{_mathml(token.content, token.info, display=True)}</p>\n"


def _mathml(content: str, source: str, *, display: bool) -> str:
    content = PRIVATE.sub("", content)
    found = to_mathml(content, display=display) if content.strip() else None
    return found or escape(source)
