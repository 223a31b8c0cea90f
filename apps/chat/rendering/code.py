"""Code in answers, coloured by class: the style sheet has light and dark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from itertools import groupby
from time import thread_time

from django.utils.translation import gettext as _
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Generic, Keyword, Literal, Name, Operator, String, _TokenType

from apps.chat.rendering.positions import PRIVATE

# Lexers are regular expressions, and the code is whatever a model wrote: code that is longer, or
# made up of repetitions, stays plain. 10,000 empty lines took the lexer of C++ six seconds.
LONGEST_CODE = 6_000
LONGEST_LINE = 400
LONGEST_CPU_S = 0.1  # of the processor, not by the clock: a busy machine changes no answer
_REPETITION = re.compile(r"(.{1,4}?)\1{99}", re.DOTALL)
# Only lexers that took hostile text in stride (`docs/decisions/0029`); names are as models write
# them behind three backticks.
_LEXERS = {
    "bash": ("bash", "sh", "shell", "zsh"),
    "c": ("c", "h"),
    "cpp": ("cpp", "c++", "cc", "hpp"),
    "csharp": ("csharp", "cs", "c#"),
    "css": ("css",),
    "diff": ("diff", "patch"),
    "docker": ("docker", "dockerfile"),
    "html": ("html", "xml", "svg"),
    "ini": ("ini", "cfg", "conf", "properties"),
    "java": ("java",),
    "javascript": ("javascript", "js", "jsx", "mjs"),
    "json": ("json", "jsonc"),
    "kotlin": ("kotlin", "kt"),
    "php": ("php",),
    "python": ("python", "py", "python3"),
    "r": ("r",),
    "ruby": ("ruby", "rb"),
    "rust": ("rust", "rs"),
    "sql": ("sql", "postgresql", "postgres", "mysql", "sqlite"),
    "swift": ("swift",),
    "toml": ("toml",),
    "typescript": ("typescript", "ts", "tsx"),
    "yaml": ("yaml", "yml"),
}
_LEXER_OF = {name: lexer for lexer, names in _LEXERS.items() for name in names}
# The first that a token is of wins.
_CLASSES: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "hl-comment"),
    (Keyword, "hl-keyword"),
    (Operator.Word, "hl-keyword"),
    (String, "hl-string"),
    (Literal, "hl-number"),
    (Name.Function, "hl-name"),
    (Name.Class, "hl-name"),
    (Name.Tag, "hl-keyword"),
    (Name.Attribute, "hl-name"),
    (Name.Decorator, "hl-name"),
    (Name.Builtin, "hl-builtin"),
    (Generic.Inserted, "hl-inserted"),
    (Generic.Deleted, "hl-deleted"),
    (Generic.Heading, "hl-name"),
    (Generic.Subheading, "hl-name"),
)
CODE_CLASSES = frozenset(name for _token, name in _CLASSES)


def code(markdown: MarkdownIt) -> None:
    """Let `markdown` colour code and give it a head with its language and a button."""
    markdown.add_render_rule("fence", _render)
    markdown.add_render_rule("code_block", _render)


def _render(
    self: RendererHTML, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
) -> str:
    token = tokens[idx]
    language = PRIVATE.sub("", token.info).strip().split(maxsplit=1)[:1]
    name = language[0][:20] if language else ""
    copy = escape(_("Copy code"))
    return (
        '<div class="code"><div class="code-head">'
        f'<span class="code-language">{escape(name)}</span>'
        f'<button class="code-copy" type="button">{copy}</button></div>'
        f'<pre tabindex="0" dir="ltr"><code>{highlight(token.content, name)}</code></pre></div>\n'
    )


def highlight(text: str, language: str) -> str:
    """Escaped HTML of code; in colour where the language is known and the code is not huge."""
    lexer_name = _LEXER_OF.get(language.casefold())
    if lexer_name is None or not _is_tame(text):
        return escape(text)
    tokens = _tokens(_lexer(lexer_name), text)
    if tokens is None:
        return escape(text)
    runs = groupby(tokens, key=lambda token: token[0])
    return "".join(_span(name, "".join(part for _name, part in run)) for name, run in runs)


def _tokens(lexer: Lexer, text: str) -> list[tuple[str, str]] | None:
    """Classes and pieces of code; None where it takes too long."""
    found, deadline = [], thread_time() + LONGEST_CPU_S
    for kind, part in lexer.get_tokens(text):
        found.append((_class_of(kind), part))
        if thread_time() > deadline:
            return None
    return found


def _is_tame(text: str) -> bool:
    if len(text) > LONGEST_CODE or max(map(len, text.split("\n"))) > LONGEST_LINE:
        return False
    return _REPETITION.search(text) is None


@lru_cache(maxsize=len(_LEXERS))
def _lexer(name: str) -> Lexer:
    lexer = get_lexer_by_name(name, stripnl=False, ensurenl=False)
    list(lexer.get_tokens(""))  # compiles its expressions, which takes long the first time
    return lexer


@lru_cache(maxsize=512)
def _class_of(kind: _TokenType) -> str:
    return next((name for token, name in _CLASSES if kind in token), "")


def _span(name: str, text: str) -> str:
    return f'<span class="{name}">{escape(text)}</span>' if name else escape(text)
