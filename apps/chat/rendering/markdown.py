"""Markdown as models write it."""

from __future__ import annotations

from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from apps.chat.rendering.code import code
from apps.chat.rendering.mathematics import mathematics

_BOXES = {"[ ] ": "\u2610 ", "[x] ": "\u2611 ", "[X] ": "\u2611 "}


def _make() -> MarkdownIt:
    """HTML stays text. References are off: one far below would change a block long finished."""
    markdown = MarkdownIt("commonmark", {"html": False, "linkify": False})
    markdown.enable(["table", "strikethrough"]).disable(["reference", "html_block", "html_inline"])
    markdown.use(code).use(mathematics)
    markdown.core.ruler.after("inline", "task_boxes", _box_tasks)
    markdown.core.ruler.after("inline", "cell_sides", _side_cells)
    markdown.add_render_rule("table_open", _open_table)
    markdown.add_render_rule("table_close", _close_table)
    return markdown


def _box_tasks(state: StateCore) -> None:
    """The boxes of task lists, as signs: nothing can be ticked here."""
    tokens = state.tokens
    for at in range(2, len(tokens)):
        if tokens[at].type != "inline" or tokens[at - 2].type != "list_item_open":
            continue
        first = (tokens[at].children or [tokens[at]])[0]
        if first.type == "text" and first.content[:4] in _BOXES:
            first.content = _BOXES[first.content[:4]] + first.content[4:]


def _side_cells(state: StateCore) -> None:
    """The side that a column keeps to, as a class: the site's policy forbids styles in pages."""
    for token in state.tokens:
        if token.type in ("th_open", "td_open") and (style := token.attrs.pop("style", "")):
            token.attrSet("class", f"cell-{str(style).removeprefix('text-align:')}")


def _open_table(
    self: RendererHTML, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
) -> str:
    # A wide table is scrolled in its own box, by keys too.
    return '<div class="table-box" tabindex="0"><table>\n'


def _close_table(
    self: RendererHTML, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
) -> str:
    return "</table></div>\n"


markdown = _make()
